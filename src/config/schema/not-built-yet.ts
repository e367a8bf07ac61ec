import type { KeyPath } from '../explain/show.ts';
import { isMap } from './schema-parts.ts';

interface Row {
  /** `*` stands for any name. */
  readonly key: string;
  /** Says why starting without it is refused; without this the key is ignored with a warning. */
  readonly refuse?: string;
  /** True when the value asks for nothing beyond what there is. */
  readonly harmless?: (value: unknown, siblings: Readonly<Record<string, unknown>>) => boolean;
  readonly ignored?: (value: unknown) => string;
}

const wider = 'not built yet; starting without it would widen what a session may do';

/** Keys the schema knows and the gateway does not act on yet. A feature that is built takes its row with it. */
export const notBuiltYet: readonly Row[] = [
  { key: 'servers.*.tools.confirm', refuse: wider, harmless: (value) => Array.isArray(value) && value.length === 0 },
  { key: 'listen.tls', refuse: 'not built yet; starting without it would send in the clear what should be encrypted' },
];

export interface NotBuilt {
  readonly path: KeyPath;
  readonly refused: boolean;
  readonly message: string;
}

interface Written {
  readonly path: KeyPath;
  readonly value: unknown;
  readonly siblings: Readonly<Record<string, unknown>>;
}

function written(value: unknown, segments: readonly string[], path: KeyPath): Written[] {
  const [segment, ...rest] = segments;
  if (segment === undefined || !isMap(value)) return [];
  const keys = segment === '*' ? Object.keys(value) : Object.hasOwn(value, segment) ? [segment] : [];
  return keys.flatMap((key) => {
    const here = [...path, key];
    return rest.length === 0 ? [{ path: here, value: value[key], siblings: value }] : written(value[key], rest, here);
  });
}

/** The keys written in a file, as it stands before defaults, that are known but not built. */
export function findNotBuilt(file: unknown, rows: readonly Row[] = notBuiltYet): NotBuilt[] {
  return rows.flatMap((row) =>
    written(file, row.key.split('.'), [])
      .filter(({ value, siblings }) => row.harmless?.(value, siblings) !== true)
      .map(({ path, value }) => ({
        path,
        refused: row.refuse !== undefined,
        message: row.refuse ?? row.ignored?.(value) ?? 'not built yet, ignored',
      })),
  );
}
