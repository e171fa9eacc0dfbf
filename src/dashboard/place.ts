/**
 * The place in the dashboard that the address names behind `#`: a screen and its parameters, such as
 * `#records?prefix=user:&record=user:42`. A link to it, a reload, and the browser's back and forward lead there.
 *
 * Values of parameters are bytes, as keys are: each that is no plain character is `%` and two hex digits.
 */
import { useMemo } from "hono/jsx/dom";
import { bytesOfEscaped, escapedBytes } from "./names.ts";
import { Store, useStore } from "./store.ts";

interface Place {
  /** Empty: the first screen. */
  readonly screen: string;
  /** By name, escaped. */
  readonly parameters: ReadonlyMap<string, string>;
}

export const placeStore = new Store<Place>(placeOf(location.hash));

function placeOf(hash: string): Place {
  const [screen = "", query = ""] = hash.slice(1).split("?");
  const pairs = query.split("&").filter((pair) => pair.includes("="));
  return {
    screen,
    parameters: new Map(pairs.map((pair) => pair.split("=") as [string, string])),
  };
}

export function listenToAddress(): void {
  const read = (): void => placeStore.set(placeOf(location.hash));
  // popstate comes for back and forward, hashchange also for a link that was followed.
  addEventListener("popstate", () => {
    isSteppingBack = false;
    read();
  });
  addEventListener("hashchange", read);
}

/** The address without its hash: the query has the namespace. */
const pageAddress = (): string => location.pathname + location.search;

/** The parameter of the query that names the namespace: it stays while screens change. */
const NAMESPACE = "namespace";

export const namespaceInAddress = (): string | null =>
  new URLSearchParams(location.search).get(NAMESPACE);

/**
 * Names a namespace in the address.
 *
 * @param name null: the one that the token says
 * @param isStep the browser's back leads to the one before
 */
export function putNamespaceInAddress(name: string | null, isStep = false): void {
  const address = new URL(location.href);
  if (name === null) address.searchParams.delete(NAMESPACE);
  else address.searchParams.set(NAMESPACE, name);
  if (isStep) history.pushState(null, "", address);
  else history.replaceState(history.state, "", address);
}

/** Goes to a screen in place of this one: back does not lead here. */
export function leaveTo(screen: string): void {
  history.replaceState(null, "", pageAddress() + (screen === "" ? "" : `#${screen}`));
  placeStore.set(placeOf(location.hash));
}

/**
 * A parameter of the address, escaped, and a way to change it.
 *
 * @param isStep a change is a step that the browser's back undoes; otherwise it replaces the address
 */
function useParameter(
  name: string,
  isStep = false,
): [escaped: string | null, change: (escaped: string | null) => void] {
  const { parameters } = useStore(placeStore);
  const change = (escaped: string | null): void => {
    afterStepBack(() => changeParameter(name, escaped, isStep));
  };
  return [parameters.get(name) ?? null, change];
}

function changeParameter(name: string, escaped: string | null, isStep: boolean): void {
  const { screen, parameters: before } = placeOf(location.hash);
  const after = new Map(before);
  if (escaped === null) after.delete(name);
  else after.set(name, escaped);
  const query = [...after].map((pair) => pair.join("=")).join("&");
  const address = `${pageAddress()}#${screen}${query === "" ? "" : `?${query}`}`;
  if (isStep && escaped !== null && !before.has(name)) history.pushState(OPENED, "", address);
  // Back takes the step away again; a window that a link has opened has no step to take back.
  else if (escaped === null && isStep && history.state === OPENED) return stepBack();
  else history.replaceState(history.state, "", address);
  placeStore.set({ screen, parameters: after });
}

/** Goes to a screen, as a link does. */
export function goTo(screen: string): void {
  afterStepBack(() => {
    location.hash = screen;
  });
}

/** The page has asked for a step back, which the browser has not made yet. */
let isSteppingBack = false;

function stepBack(): void {
  isSteppingBack = true;
  history.back();
}

/** Changes the address, now or once the step back is made: it would take back the change instead. */
function afterStepBack(change: () => void): void {
  if (!isSteppingBack) return change();
  addEventListener("popstate", () => afterStepBack(change), { once: true });
}

/** In the state of the browser's history: this page has made the step, by opening something. */
const OPENED = "opened";

/** Text in the address that is there as long as it is not `otherwise`, such as a filter. */
export function useTextParameter(
  name: string,
  otherwise = "",
): [text: string, change: (text: string) => void] {
  const [escaped, change] = useParameter(name);
  const text = escaped === null ? otherwise : decoder.decode(bytesOfEscaped(escaped));
  return [text, (next) => change(next === otherwise ? null : escapedBytes(encoder.encode(next)))];
}

/** The name of the one thing that is open beside the list of a screen; null: nothing is. */
export function useOpened(
  name: string,
): [opened: Uint8Array | null, open: (opened: Uint8Array | null) => void] {
  const [escaped, change] = useParameter(name, true);
  // The same bytes each time: effects begin anew when they get others.
  const opened = useMemo(() => (escaped === null ? null : bytesOfEscaped(escaped)), [escaped]);
  return [opened, (opened) => change(opened === null ? null : escapedBytes(opened))];
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
