/**
 * The frame of the page: navigation, the screen that the address names, notices, and keyboard shortcuts.
 *
 * A screen is listed in `SCREENS` with the scopes that it is good for: a token without any of them does not see it in the
 * navigation. A link to it still opens it, and says which scope is missing.
 */
import { ErrorBoundary, useState } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";
import { Button, Dialog, Failure } from "./controls/index.ts";
import { formatMoment } from "./format.ts";
import { noticeStore, notify, reloadScreen } from "./hooks.ts";
import { Icon, type IconName } from "./icons.tsx";
import { ChannelsScreen } from "./screens/channels.tsx";
import { ConnectionsScreen } from "./screens/connections.tsx";
import { LimiterScreen } from "./screens/limiter.tsx";
import { LimitsScreen } from "./screens/limits.tsx";
import { OverviewScreen } from "./screens/overview.tsx";
import { RecordsScreen } from "./screens/records.tsx";
import { SemaphoresScreen } from "./screens/semaphores.tsx";
import { ShardsScreen } from "./screens/shards.tsx";
import { goTo, leaveTo, listenToAddress, placeStore } from "./place.ts";
import { hasAllScopes } from "./rights.ts";
import {
  failureOf,
  lacksScope,
  listenToNamespace,
  sessionStore,
  signOut,
  type Session,
} from "./session.ts";
import { NamespaceButton } from "./namespace-picker.tsx";
import { Logo, NamespaceMissing, NotOpen, SignIn } from "./sign-in.tsx";
import { keepItem, readItem } from "./storage.ts";
import { Store, useStore } from "./store.ts";
import { nextTheme, themeStore } from "./theme.ts";
import type { Theme } from "./theme-names.ts";

/** Screens in the order of the navigation. A token with any of its scopes can use a screen. */
const SCREENS = {
  overview: { title: "Overview", Screen: OverviewScreen, scopes: ["admin"] },
  limits: { title: "Limits", Screen: LimitsScreen, scopes: ["admin"] },
  records: { title: "Records", Screen: RecordsScreen, scopes: ["read", "write"] },
  channels: {
    title: "Channels",
    Screen: ChannelsScreen,
    scopes: ["publish", "subscribe", "admin"],
  },
  connections: { title: "Connections", Screen: ConnectionsScreen, scopes: ["admin"] },
  semaphores: { title: "Semaphores", Screen: SemaphoresScreen, scopes: ["read", "write"] },
  shards: { title: "Shards", Screen: ShardsScreen, scopes: ["admin"] },
  limiter: { title: "Limiter", Screen: LimiterScreen, scopes: ["read", "write"] },
} as const;

type ScreenName = keyof typeof SCREENS;
const NAMES = Object.keys(SCREENS) as ScreenName[];
/** The screen that leads to another one, which the navigation shows only where it does not show the first. */
const WITHIN: Readonly<Partial<Record<ScreenName, ScreenName>>> = {
  shards: "overview",
  limiter: "limits",
};
const SIGN_IN = "sign-in";

/** The screens that the token can use, as the navigation shows them. */
function screensOf(session: Session): readonly ScreenName[] {
  const usable = NAMES.filter((name) =>
    SCREENS[name].scopes.some((scope) => !lacksScope(session, scope)),
  );
  return usable.filter((name) => shownAs(name, usable) === name);
}

/** The entry of the navigation that a screen belongs to. */
function shownAs(name: ScreenName, screens: readonly ScreenName[]): ScreenName {
  const outer = WITHIN[name];
  return outer !== undefined && screens.includes(outer) ? outer : name;
}

/** The screen that the address names; null for the first one. */
const screenIn = (screen: string): ScreenName | null =>
  NAMES.find((name) => name === screen) ?? null;

/** From the page to sign in to the first screen. */
function leaveSignIn(): void {
  if (placeStore.value.screen === SIGN_IN) leaveTo("");
}
const helpStore = new Store(false);

/** Shortcuts without Ctrl or Alt can be turned off: speech input and other devices press single keys by chance. */
const KEYS_ITEM = "throttr-keys";
const keysStore = new Store(readItem("localStorage", KEYS_ITEM) !== "off");

export function listenToPage(): void {
  let { screen } = placeStore.value;
  placeStore.subscribe(() => {
    if (placeStore.value.screen === screen) return;
    ({ screen } = placeStore.value);
    focusTitle();
  });
  listenToAddress();
  listenToNamespace();
  addEventListener("keydown", onKey);
}

/** Once the screen is drawn. A screen reader says the title that gets the focus, and so that the screen is another one. */
function focusTitle(): void {
  const before = document.activeElement;
  requestAnimationFrame(() => {
    const { activeElement, body } = document;
    // A key may have gone to the filter meanwhile.
    if (activeElement !== before && activeElement !== body) return;
    document.getElementById("screen-title")?.focus();
  });
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("input, textarea, select") !== null;

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]") !== null) return;
  const state = sessionStore.value;
  if (state.status !== "open" || !keysStore.value || placeStore.value.screen === SIGN_IN) return;
  const { key } = event;
  const screen = screensOf(state.session)[Number(key) - 1];
  if (screen !== undefined) goTo(screen);
  else if (key === "?") helpStore.set(true);
  else if (key === "/") document.getElementById("filter")?.focus();
  else if (key === "r") reloadScreen();
  else if (key === "t") changeTheme();
  else return;
  event.preventDefault();
}

const THEME_ICONS: Readonly<Record<Theme, IconName>> = {
  system: "system",
  light: "sun",
  dark: "theme",
};

function changeTheme(): void {
  notify(`Theme: ${nextTheme()}`);
}

export function App() {
  const state = useStore(sessionStore);
  const { screen } = useStore(placeStore);
  switch (state.status) {
    case "checking":
      return <main class="alone" aria-busy="true" aria-label="Loading" />;
    case "asking":
      return <SignIn key="asked" session={null} error={state.error} onLeave={leaveSignIn} />;
    case "failed":
      return <NotOpen error={state.error} />;
    case "open":
      return screen === SIGN_IN ? (
        <SignIn key="open" session={state.session} error={null} onLeave={leaveSignIn} />
      ) : state.session.mustChoose ? (
        <NamespaceMissing session={state.session} />
      ) : (
        <Opened session={state.session} place={screenIn(screen)} />
      );
  }
}

function Opened({
  session,
  place,
}: {
  readonly session: Session;
  readonly place: ScreenName | null;
}) {
  const screens = screensOf(session);
  const name = place ?? screens[0] ?? "overview";
  const isHelping = useStore(helpStore);
  const { title, Screen } = SCREENS[name];
  const key = `${name} ${session.number}`;
  useEffect(() => {
    document.title = `${title} · Throttr Edge`;
  }, [title]);
  return (
    <div class="page">
      <a
        class="skip"
        href="#screen"
        onClick={(event: Event) => {
          event.preventDefault();
          document.getElementById("screen-title")?.focus();
        }}
      >
        Skip to the content
      </a>
      <Side session={session} screens={screens} name={shownAs(name, screens)} />
      <main id="screen" class={`screen ${name}`}>
        <ErrorBoundary
          key={key}
          fallbackRender={(error: Error) => <Failure error={failureOf(error)} />}
        >
          <Screen key={key} session={session} />
        </ErrorBoundary>
      </main>
      <Notice />
      {isHelping ? <Help session={session} /> : null}
    </div>
  );
}

function Side({
  session,
  screens,
  name,
}: {
  readonly session: Session;
  readonly screens: readonly ScreenName[];
  readonly name: ScreenName;
}) {
  const { theme } = useStore(themeStore);
  return (
    <header class="side">
      <a class="brand" href="#" aria-label="Throttr Edge, first screen">
        <Logo />
        <span>Throttr Edge</span>
      </a>
      <nav aria-label="Screens">
        {screens.map((screen) => (
          <a key={screen} href={`#${screen}`} aria-current={screen === name ? "page" : null}>
            <Icon name={screen} />
            <span>{SCREENS[screen].title}</span>
          </a>
        ))}
      </nav>
      <div class="side-foot">
        {hasReference(session) ? (
          <a class="reference" href="docs">
            API reference
          </a>
        ) : null}
        <Rights session={session} />
        <div class="side-buttons">
          <Button
            label={`Theme: ${theme}`}
            icon={THEME_ICONS[theme]}
            isBare
            onPress={changeTheme}
          />
          <Button
            label="Keyboard shortcuts and help"
            icon="help"
            isBare
            onPress={() => helpStore.set(true)}
          />
          <Button label="Sign in" icon="enter" isBare onPress={() => goTo(SIGN_IN)} />
          {session.token === null ? null : (
            <Button
              label={session.isWithoutToken ? "Leave the namespace" : "Sign out"}
              icon="leave"
              isBare
              onPress={() => void signOut()}
            />
          )}
        </div>
      </div>
    </header>
  );
}

/** The namespace that is shown, and what may be done there. */
function Rights({ session }: { readonly session: Session }) {
  const { namespace, scopes, expiresAtMs } = session.grant;
  return (
    <p
      class="rights hint"
      title={expiresAtMs === null ? "" : `This access ends ${formatMoment(expiresAtMs)}`}
    >
      {session.grant.isForAllNamespaces ? (
        <NamespaceButton session={session} />
      ) : (
        <strong>{namespace}</strong>
      )}
      <span>
        {scopes.length === 0
          ? "no scopes"
          : session.isWithoutToken && hasAllScopes(session)
            ? "no token needed"
            : scopes.join(", ")}
      </span>
    </p>
  );
}

function Notice() {
  const notice = useStore(noticeStore);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (notice.number === 0) return;
    setSeen(true);
    const timer = setTimeout(() => setSeen(false), 4000);
    return () => clearTimeout(timer);
  }, [notice.number]);
  return (
    <p class={isSeen ? "notice seen" : "notice"} role="status" aria-live="polite">
      {notice.text}
    </p>
  );
}

const KEYS: readonly (readonly [keys: string, does: string])[] = [
  ["1 – 6", "Open the first to sixth screen"],
  ["/", "Go to the filter field"],
  ["r", "Refresh the screen"],
  ["t", "Change the theme: system, light, dark"],
  ["?", "Show these shortcuts"],
  ["Esc", "Close the window"],
];

/** Below the path of an application, the reference is a module of its own, which may be left out. */
const hasReference = ({ grant }: Session): boolean => grant.hasReference;

function Help({ session }: { readonly session: Session }) {
  const areOn = useStore(keysStore);
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => helpStore.set(false)}>
      <dl class="keys">
        {KEYS.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <label class="check">
        <input
          type="checkbox"
          checked={areOn}
          onInput={(event: Event) => {
            const { checked } = event.target as HTMLInputElement;
            keepItem("localStorage", KEYS_ITEM, checked ? "on" : "off");
            keysStore.set(checked);
          }}
        />
        Enable shortcuts of a single key
      </label>
      {hasReference(session) ? (
        <p class="hint">
          All API calls with examples: <a href="docs">API reference</a>.
        </p>
      ) : null}
    </Dialog>
  );
}
