import { type Alias, isAlias, isMap, isScalar, isSeq, type Node, type Pair, type Scalar, type YAMLMap } from 'yaml';
import type { Problem } from '../explain/problem.ts';
import type { KeyPath } from '../explain/show.ts';

/** Most values that aliases may stand for in all: enough to share settings, too little to blow up. */
const mostAliased = 10_000;

type Entry = Pair<unknown, Node | null>;

export interface YamlValue {
  readonly value: unknown;
  readonly problems: readonly Problem[];
  /** True when the value is not whole, so that checking it further would mislead. */
  readonly broken: boolean;
  readonly entries: ReadonlyMap<unknown, ReadonlyMap<string, Entry>>;
  readonly targets: ReadonlyMap<unknown, Node>;
}

interface Anchored {
  readonly node: Node;
  readonly value: unknown;
  readonly size: number;
}

/** The text of a key as it was written: `010` stays `010`. */
function keyText(key: Scalar): string {
  return typeof key.value === 'string' ? key.value : (key.source ?? String(key.value));
}

export const offsetOf = (node: unknown): number => (node as Node | null | undefined)?.range?.[0] ?? 0;

/**
 * The plain value of a document, with all that YAML allows and a configuration should not have refused on the way.
 * Maps have no prototype. Aliases share the value they stand for, so nothing is ever expanded.
 */
export function readYamlValue(root: Node | null, lineAt: (offset: number) => number): YamlValue {
  const problems: Problem[] = [];
  const anchors = new Map<string, Anchored>();
  const entries = new Map<unknown, Map<string, Entry>>();
  const targets = new Map<unknown, Node>();
  let size = 0;
  let aliased = 0;
  let broken = false;

  const complain = (path: KeyPath, node: unknown, message: string): void => {
    problems.push({ path, at: 'key', message, offset: offsetOf(node) });
  };

  function readAlias(alias: Alias, path: KeyPath): unknown {
    const found = anchors.get(alias.source);
    if (found === undefined) {
      broken = true;
      complain(path, alias, 'this alias has no anchor before it, or stands inside it');
      return undefined;
    }
    size += found.size;
    aliased += found.size;
    if (aliased > mostAliased) {
      if (!broken) complain(path, alias, `the aliases of this file stand for more than ${mostAliased} values`);
      broken = true;
      return undefined;
    }
    targets.set(alias, found.node);
    return found.value;
  }

  function readKey(key: unknown, path: KeyPath): string | undefined {
    const scalar = isAlias(key) ? anchors.get(key.source)?.node : key;
    if (!isScalar(scalar)) {
      complain(path, key, 'a key must be plain text');
      return undefined;
    }
    if (scalar.anchor && scalar === key) anchors.set(scalar.anchor, { node: scalar, value: scalar.value, size: 1 });
    return keyText(scalar);
  }

  function readMap(map: YAMLMap, path: KeyPath): unknown {
    const value: Record<string, unknown> = Object.create(null);
    const known = new Map<string, Entry>();
    entries.set(map, known);
    for (const pair of map.items as Entry[]) {
      const key = readKey(pair.key, path);
      const here = key === undefined ? path : [...path, key];
      const inner = pair.value === null ? null : read(pair.value, here);
      if (key === undefined) continue;
      const first = known.get(key);
      if (key === '__proto__') complain(here, pair.key, 'this key is not allowed');
      else if (first !== undefined) {
        complain(here, pair.key, `duplicate key; it stands on line ${lineAt(offsetOf(first.key))} already`);
      } else {
        known.set(key, pair);
        value[key] = inner;
      }
    }
    return value;
  }

  function read(node: Node, path: KeyPath): unknown {
    if (isAlias(node)) return readAlias(node, path);
    const before = size++;
    const value = isMap(node)
      ? readMap(node, path)
      : isSeq(node)
        ? node.items.map((item, index) => read(item as Node, [...path, index]))
        : (node as Scalar).value;
    const { anchor } = node as Scalar;
    if (anchor) anchors.set(anchor, { node, value, size: size - before });
    return value;
  }

  const value = root === null ? null : read(root, []);
  return { value, problems, broken, entries, targets };
}
