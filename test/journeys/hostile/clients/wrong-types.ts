import { proof } from '../../../proof.ts';

/** Every JSON type, and the odd ones among them, as JSON text: some numbers do not survive JSON.stringify. */
export const jsonValues: readonly string[] = [
  'null',
  'true',
  'false',
  '0',
  '-1',
  '1.5',
  '1e400',
  '9007199254740993',
  '""',
  '"x"',
  '"2026-07-28"',
  '"\\u0000\\ud800"',
  '"a\\r\\nb: c"',
  '[]',
  '[[{}]]',
  '{}',
  '{"__proto__":{"constructor":1}}',
];

export interface Variant {
  readonly what: string;
  readonly text: string;
}

const hole = '\u0001hole\u0001';

/**
 * The message with every one of its values, however deep, replaced by every JSON type, and once left out. Outside the
 * proof each value meets a sixth of the types, its neighbours the others.
 */
export function* variantsOf(message: unknown): Generator<Variant> {
  for (const [place, path] of [...pathsOf(message, [])].entries()) {
    const all = [...variantsAt(message, path)];
    yield* proof ? all : all.filter((_, index) => (place + index) % 6 === 0);
  }
}

function* variantsAt(message: unknown, path: readonly string[]): Generator<Variant> {
  const where = path.join('.') || '(all)';
  const template = JSON.stringify(replaced(message, path, hole));
  for (const value of jsonValues) {
    yield { what: `${where} = ${value}`, text: template.replace(JSON.stringify(hole), () => value) };
  }
  if (path.length > 0) yield { what: `no ${where}`, text: JSON.stringify(replaced(message, path, undefined)) };
}

function* pathsOf(value: unknown, path: readonly string[]): Generator<readonly string[]> {
  yield path;
  if (typeof value !== 'object' || value === null) return;
  for (const [key, inner] of Object.entries(value)) yield* pathsOf(inner, [...path, key]);
}

function replaced(value: unknown, path: readonly string[], by: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return by;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, unknown>;
  copy[key] = replaced(copy[key], rest, by);
  return copy;
}
