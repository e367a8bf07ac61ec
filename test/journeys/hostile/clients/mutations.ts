import fc from 'fast-check';

export type Mutation = (bytes: Buffer) => Buffer;

const place = fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true });
const snippet = fc.oneof(
  fc.constantFrom('"', '{', '}', '[', ']', ',', ':', '\\', '\\u', 'null', '1e999', '-', '\n', '\r', '\0', '\u2028'),
  fc.constantFrom('"id":1,', '"id":null,', '"method":"x",', '"result":{},', '"params":{},', '"_meta":{"ambit/x":1},'),
  fc.string({ maxLength: 8 }),
);

function cutAt(bytes: Buffer, at: number): number {
  return Math.floor(at * (bytes.length + 1));
}

function spliced(bytes: Buffer, from: number, to: number, by: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, from), by, bytes.subarray(Math.max(from, to))]);
}

/** One small harm to a message: a byte changed, a stretch lost, doubled, cut off, or something put in. */
export const mutation: fc.Arbitrary<Mutation> = fc.oneof(
  fc.tuple(place, fc.integer({ min: 0, max: 255 })).map(
    ([at, byte]): Mutation =>
      (bytes) =>
        spliced(bytes, cutAt(bytes, at), cutAt(bytes, at) + 1, Buffer.from([byte])),
  ),
  fc.tuple(place, snippet).map(
    ([at, text]): Mutation =>
      (bytes) =>
        spliced(bytes, cutAt(bytes, at), cutAt(bytes, at), Buffer.from(text)),
  ),
  fc.tuple(place, fc.integer({ min: 1, max: 40 })).map(
    ([at, length]): Mutation =>
      (bytes) =>
        spliced(bytes, cutAt(bytes, at), cutAt(bytes, at) + length, Buffer.alloc(0)),
  ),
  fc.tuple(place, place, fc.integer({ min: 1, max: 60 })).map(
    ([from, to, length]): Mutation =>
      (bytes) =>
        spliced(bytes, cutAt(bytes, to), cutAt(bytes, to), bytes.subarray(cutAt(bytes, from)).subarray(0, length)),
  ),
  place.map(
    (at): Mutation =>
      (bytes) =>
        bytes.subarray(0, cutAt(bytes, at)),
  ),
);

export function mutateText(text: string, mutations: readonly Mutation[]): Buffer {
  return mutations.reduce<Buffer>((bytes, mutate) => mutate(bytes), Buffer.from(text));
}
