import fc from 'fast-check';

/** One member of an object as it was written: its key and value are JSON texts. */
export interface WrittenMember {
  readonly key: string;
  readonly value: string;
}

export interface WrittenObject {
  readonly text: string;
  readonly members: readonly WrittenMember[];
}

const space = fc.constantFrom('', '', '', ' ', '\n', '\t', '\r\n', ' \n\t ');

const numberText = fc.oneof(
  fc.constantFrom('0', '-0', '1e400', '-1E+5', '0.1e-7', '1E5', '9007199254740993', '-123456789012345678901234567890'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
);

const stringPiece = fc.oneof(
  fc.constantFrom('\\n', '\\t', '\\"', '\\\\', '\\/', '\\b', '\\f', '\\r', '\\u0000', '\\u0061', '\\uD83D\\uDE00'),
  fc.constantFrom('\\ud800', '\\uDFFF', '{', '}', '[', ']', ',', ':', ' ', 'é', '😀', '\u2028', '\u007f', '\ufeff'),
  fc.string({ maxLength: 4 }).map((text) => JSON.stringify(text).slice(1, -1)),
);

export const stringText = fc.array(stringPiece, { maxLength: 4 }).map((pieces) => `"${pieces.join('')}"`);

const { value } = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom('true', 'false', 'null'),
    numberText,
    stringText,
    tie('array'),
    tie('object'),
  ),
  array: fc
    .array(fc.tuple(space, tie('value'), space), { maxLength: 4 })
    .map((elements) => `[${elements.map((parts) => parts.join('')).join(',') || ' '}]`),
  object: fc.array(fc.tuple(stringText, tie('value')), { maxLength: 4 }).map(writeObject),
}));

export const valueText = value;

function writeObject(members: readonly (readonly [string, string])[]): string {
  return `{${members.map(([key, inner]) => `${key}:${inner}`).join(',')}}`;
}

/** Objects in every way JSON allows to write them; keys may repeat, as `"a"` and `"\u0061"`. */
export const objectText: fc.Arbitrary<WrittenObject> = fc
  .tuple(
    space,
    fc.array(fc.record({ before: space, key: stringText, colon: space, gap: space, value: valueText, after: space }), {
      maxLength: 6,
    }),
    space,
  )
  .map(([before, members, after]) => {
    const inside = members.map(
      (each) => `${each.before}${each.key}${each.colon}:${each.gap}${each.value}${each.after}`,
    );
    return { text: `${before}{${inside.join(',')}}${after}`, members };
  });

const oddBytes = [
  ...Buffer.from('{}[]",:\\0123456789.eE+-tfnu/ \n\t\r\0\x1f\x7fabz'),
  0x80,
  0xc0,
  0xe2,
  0xed,
  0xf5,
  0xff,
];

/** The same text with a few bytes removed, added, changed or repeated: most are no longer JSON, some still are. */
export function mutateObjects(of: fc.Arbitrary<WrittenObject>): fc.Arbitrary<Buffer> {
  const change = fc.record({
    kind: fc.constantFrom('cut', 'insert', 'change', 'repeat', 'truncate'),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    length: fc.integer({ min: 1, max: 4 }),
    byte: fc.constantFrom(...oddBytes),
  });
  return fc.tuple(of, fc.array(change, { minLength: 1, maxLength: 3 })).map(([{ text }, changes]) => {
    let bytes = Buffer.from(text);
    for (const { kind, at, length, byte } of changes) {
      const from = Math.floor(at * bytes.length);
      const head = bytes.subarray(0, from);
      const piece = bytes.subarray(from, from + length);
      const tail = bytes.subarray(from + length);
      if (kind === 'cut') bytes = Buffer.concat([head, tail]);
      else if (kind === 'insert') bytes = Buffer.concat([head, Buffer.from([byte]), bytes.subarray(from)]);
      else if (kind === 'change') bytes = Buffer.concat([head, Buffer.from([byte]), bytes.subarray(from + 1)]);
      else if (kind === 'repeat') bytes = Buffer.concat([head, piece, piece, tail]);
      else bytes = Buffer.from(head);
    }
    return bytes;
  });
}
