/** The frame of the page: which screen is open, what leads to the others, and the keys. */
import { ErrorBoundary, useState } from "hono/jsx/dom";
import { useEffect } from "./effect.ts";
import { Button, Dialog, Failure } from "./controls/index.ts";
import { formatMoment } from "./format.ts";
import { noticeStore, notify, reloadScreen } from "./hooks.ts";
import { Icon, type IconName } from "./icons.tsx";
import { ChannelsScreen } from "./screens/channels.tsx";
import { ConnectionsScreen } from "./screens/connections.tsx";
import { LimiterScreen } from "./screens/limiter.tsx";
import { OverviewScreen } from "./screens/overview.tsx";
import { RecordsScreen } from "./screens/records.tsx";
import { SemaphoresScreen } from "./screens/semaphores.tsx";
import { failureOf, lacksScope, sessionStore, signOut, type Session } from "./session.ts";
import { Logo, NotOpen, SignIn } from "./sign-in.tsx";
import { Store, useStore } from "./store.ts";
import { nextTheme, themeStore } from "./theme.ts";
import type { Theme } from "./theme-names.ts";

/** Screens, and the scopes each of which has something to do there. */
const SCREENS = {
  overview: { title: "Overview", Screen: OverviewScreen, scopes: ["admin"] },
  records: { title: "Records", Screen: RecordsScreen, scopes: ["read", "write"] },
  channels: {
    title: "Channels",
    Screen: ChannelsScreen,
    scopes: ["publish", "subscribe", "admin"],
  },
  connections: { title: "Connections", Screen: ConnectionsScreen, scopes: ["admin"] },
  semaphores: { title: "Semaphores", Screen: SemaphoresScreen, scopes: ["read", "write"] },
  limiter: { title: "Limiter", Screen: LimiterScreen, scopes: ["read", "write"] },
} as const;

type ScreenName = keyof typeof SCREENS;
const NAMES = Object.keys(SCREENS) as ScreenName[];
const SIGN_IN = "sign-in";

/** The screens that have something for the token. */
function screensOf(session: Session): readonly ScreenName[] {
  return NAMES.filter((name) => SCREENS[name].scopes.some((scope) => !lacksScope(session, scope)));
}

/** What the address says, behind `#`: a screen, the page to sign in, or nothing, which is the first screen. */
type Place = ScreenName | typeof SIGN_IN | null;

function placeOf(hash: string): Place {
  return hash === `#${SIGN_IN}` ? SIGN_IN : (NAMES.find((name) => hash === `#${name}`) ?? null);
}

const placeStore = new Store<Place>(placeOf(location.hash));

/** From the page to sign in to the first screen. */
function leaveSignIn(): void {
  if (placeStore.value !== SIGN_IN) return;
  history.replaceState(null, "", location.pathname);
  placeStore.set(null);
}
const helpStore = new Store(false);

/** Keys without a meaning of their own may be turned off: some people's devices press them by chance. */
const KEYS_ITEM = "throttr-keys";
const keysStore = new Store(localStorage.getItem(KEYS_ITEM) !== "off");

export function listenToPage(): void {
  addEventListener("hashchange", () => {
    placeStore.set(placeOf(location.hash));
    // Who can't see that the page is another one hears its title.
    requestAnimationFrame(() => document.getElementById("screen-title")?.focus());
  });
  addEventListener("keydown", onKey);
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("input, textarea, select") !== null;

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]") !== null) return;
  const state = sessionStore.value;
  if (state.status !== "open" || !keysStore.value || placeStore.value === SIGN_IN) return;
  const { key } = event;
  const screen = screensOf(state.session)[Number(key) - 1];
  if (screen !== undefined) location.hash = screen;
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
  const place = useStore(placeStore);
  switch (state.status) {
    case "checking":
      return <main class="alone" aria-busy="true" aria-label="Loading" />;
    case "asking":
      return <SignIn key="asked" session={null} error={state.error} onLeave={leaveSignIn} />;
    case "failed":
      return <NotOpen error={state.error} />;
    case "open":
      return place === SIGN_IN ? (
        <SignIn key="open" session={state.session} error={null} onLeave={leaveSignIn} />
      ) : (
        <Opened session={state.session} place={place} />
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
        To the content
      </a>
      <Side session={session} screens={screens} name={name} />
      <main id="screen" class={`screen ${name}`}>
        <ErrorBoundary
          key={name}
          fallbackRender={(error: Error) => <Failure error={failureOf(error)} />}
        >
          <Screen key={name} session={session} />
        </ErrorBoundary>
      </main>
      <Notice />
      {isHelping ? <Help /> : null}
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
        <Rights session={session} />
        <div class="side-buttons">
          <Button
            label={`Theme: ${theme}`}
            icon={THEME_ICONS[theme]}
            isBare
            onPress={changeTheme}
          />
          <Button label="Keys and help" icon="help" isBare onPress={() => helpStore.set(true)} />
          <Button
            label="Sign in"
            icon="enter"
            isBare
            onPress={() => {
              location.hash = SIGN_IN;
            }}
          />
          {session.token === null ? null : (
            <Button
              label={session.isOpenToAll ? "Leave the namespace" : "Forget the token"}
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

/** Whose figures these are, and what may be done. */
function Rights({
  session: { claims, isOpenToAll, namespace: opened },
}: {
  readonly session: Session;
}) {
  if (isOpenToAll) {
    return (
      <p class="rights">
        <strong>{opened}</strong>
        <span>open to all</span>
      </p>
    );
  }
  if (claims === null) return <p class="rights">With a token</p>;
  const { namespace, scopes, expiresAtMs } = claims;
  return (
    <p class="rights" title={`Until ${formatMoment(expiresAtMs)}`}>
      <strong>{namespace}</strong>
      <span>{scopes.length === 0 ? "no scopes" : scopes.join(", ")}</span>
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
  ["1 – 6", "Open a screen, in their order"],
  ["/", "Go to the filter of the screen"],
  ["r", "Load the screen again"],
  ["t", "Change the theme: system, light, dark"],
  ["?", "Show this"],
  ["Esc", "Close what is open"],
];

function Help() {
  const areOn = useStore(keysStore);
  return (
    <Dialog title="Keys" onClose={() => helpStore.set(false)}>
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
            localStorage.setItem(KEYS_ITEM, checked ? "on" : "off");
            keysStore.set(checked);
          }}
        />
        Single keys do this
      </label>
      <p class="hint">
        All calls, with examples: <a href="/docs">the API</a>.
      </p>
    </Dialog>
  );
}
