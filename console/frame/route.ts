import { computed, signal } from '@preact/signals';
// It takes the code out of the address first.
import '../sign-in/given-code.ts';

/** The place in the console, as the fragment of the address says it: `#/sessions/ID?tab=context`. */
export interface Route {
  /** The parts of the path; the first one is the view. */
  readonly path: readonly string[];
  readonly query: ReadonlyMap<string, string>;
}

const fragment = signal(location.hash);
addEventListener('hashchange', () => setFragment(location.hash));

/** The place that the address names. The code of its view may still be loading. */
export const askedRoute = computed(() => parseRoute(fragment.value));
/** Its path alone, so that a view is not made again when only a filter changes. */
export const askedPath = computed(() => writeKey(askedRoute.value));

const shownFragment = signal(fragment.peek());
/** The place whose view is shown. Views read this one, so they never see the id or the filters of the next view. */
export const route = computed(() => parseRoute(shownFragment.value));

/** Makes the place that the address names the one that is shown: its view is about to appear. */
export function showAskedRoute(): void {
  shownFragment.value = fragment.peek();
}

function setFragment(next: string): void {
  fragment.value = next;
  if (askedPath.peek() === writeKey(route.peek())) showAskedRoute();
}

const writeKey = ({ path }: Route): string => path.join('/');

function parseRoute(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/').filter(Boolean).map(decodePart);
  return { path: parts, query: new Map(new URLSearchParams(search)) };
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

type Query = Readonly<Record<string, string | number | undefined>>;

/** Writes the address of a view. Empty and absent members of the query are left out. */
export function hrefOf(parts: readonly string[], query: Query = {}): string {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)]));
  const path = parts.map(encodeURIComponent).join('/');
  return `#/${path}${search.size === 0 ? '' : `?${search}`}`;
}

export function navigate(href: string): void {
  location.hash = href;
}

/** Replaces the address without a new entry in the history. */
export function replaceAddress(href: string): void {
  history.replaceState(null, '', href);
  setFragment(href);
}

/** Changes members of the query without a new entry in the history. An empty text removes a member. */
export function setQuery(change: Query): void {
  const { path, query } = route.peek();
  // The next view is loading: the address is not that of the view that asks.
  if (writeKey(route.peek()) !== askedPath.peek()) return;
  replaceAddress(hrefOf(path, { ...Object.fromEntries(query), ...change }));
}

/** Reads a member of the query; an empty text if it is absent. */
export function readQuery(name: string): string {
  return route.value.query.get(name) ?? '';
}
