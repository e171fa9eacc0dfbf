/**
 * The API reference at `/docs`: Scalar's component, with the server's own OpenAPI document, the dashboard's colours and
 * the token of this tab. The component is a script of its own (`scalar.js`), which has run before this one.
 *
 * It would also fetch fonts, send telemetry and offer services of its maker; all of that is off, and the page's
 * Content-Security-Policy would refuse it.
 */
import { urlOf } from "../base.ts";
import { readToken } from "../session-token.ts";
import { nextTheme, themeStore } from "../theme.ts";
import { codeOf, showCode } from "./codes.ts";

/** The part of Scalar's browser build that is used here. */
declare const Scalar: {
  createApiReference(
    selector: string,
    configuration: object,
  ): { updateConfiguration(configuration: object): void };
};

const configurationOf = (isDark: boolean): object => ({
  url: urlOf("/openapi.json"),
  // Requests go to the server that the page came from, below its prefix.
  servers: [{ url: urlOf("") }],
  authentication: {
    preferredSecurityScheme: "bearer",
    securitySchemes: { bearer: { token: readToken() ?? "" } },
  },
  theme: "none",
  forceDarkModeState: isDark ? "dark" : "light",
  hideDarkModeToggle: true,
  hideClientButton: true,
  documentDownloadType: "direct",
  modelsSectionLabel: "Schemas",
  generateOperationSlug: ({ operationId }: { readonly operationId: string }) => operationId,
  setPageTitle: ({ title }: { readonly title: string }) => `${title} · Throttr Edge API`,
  agent: { disabled: true },
  mcp: { disabled: true },
  showDeveloperTools: "never",
  telemetry: false,
  withDefaultFonts: false,
  customFetch: fetchAsTyped,
});

/** Scalar sends `Authorization: Bearer` while the field for the token is empty, which the server refuses: leave it out. */
async function fetchAsTyped(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(input, init);
  if (request.headers.get("authorization")?.trim() === "Bearer") {
    request.headers.delete("authorization");
  }
  return await fetch(request);
}

// Scalar would take the code for the name of a document.
const hash = location.hash;
if (codeOf(hash) !== null) history.replaceState(null, "", location.pathname);

const reference = Scalar.createApiReference("#reference", configurationOf(themeStore.value.isDark));

const themeButton = document.getElementById("theme")!;
themeButton.addEventListener("click", nextTheme);

function showTheme(): void {
  const { theme, isDark } = themeStore.value;
  themeButton.setAttribute("aria-label", `Theme: ${theme}`);
  themeButton.lastElementChild!.textContent = theme;
  reference.updateConfiguration(configurationOf(isDark));
}

themeStore.subscribe(showTheme);
showTheme();

void showCode(hash);
addEventListener("hashchange", () => void showCode(location.hash));
