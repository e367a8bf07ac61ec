import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  createFrameReader,
  encodeFrame,
  type FrameHead,
  maxHeadBytes,
} from '../../../../src/workspaces/backends/container/files-protocol.ts';
import { counts } from '../../../proof.ts';

/** The body as text: comparing bytes one by one takes long. */
type Frame = readonly [FrameHead, string];

function createReader(bodyBytes: number) {
  const frames: Frame[] = [];
  const reader = createFrameReader({
    maxBodyBytes: () => bodyBytes,
    onFrame: (head, body) => frames.push([head, body.toString('hex')]),
  });
  return { frames, push: reader.push };
}

const createPrefix = (head: number, body: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt32BE(head, 0);
  bytes.writeUInt32BE(body, 4);
  return bytes;
};

test('frames are read unchanged, wherever they are split', () => {
  const frame = fc.tuple(
    fc.record({ id: fc.nat(), path: fc.string({ unit: 'binary' }) }),
    fc.uint8Array({ maxLength: 200 }),
  );
  fc.assert(
    fc.property(
      fc.array(frame, { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1 }),
      (sent, cuts) => {
        const { frames, push } = createReader(200);
        let rest = Buffer.concat(sent.flatMap(([head, body]) => encodeFrame(head, body)));
        for (let turn = 0; rest.length > 0; turn++) {
          const cut = cuts[turn % cuts.length] as number;
          push(rest.subarray(0, cut));
          rest = rest.subarray(cut);
        }
        expect(frames).toEqual(sent.map(([head, body]) => [head, Buffer.from(body).toString('hex')]));
      },
    ),
    { numRuns: counts(40, 5000) },
  );
});

test('a body too large to be joined to its head is read whole', () => {
  const body = Buffer.alloc(200_000, 5);
  const { frames, push } = createReader(body.length);
  for (const part of encodeFrame({ id: 1 }, body)) push(Buffer.from(part));
  expect(frames).toEqual([[{ id: 1 }, body.toString('hex')]]);
});

test('a length beyond the limit is refused before memory is allocated', () => {
  expect(() => createReader(10).push(createPrefix(maxHeadBytes + 1, 0))).toThrow('A head of');
  expect(() => createReader(10).push(createPrefix(0xffffffff, 0xffffffff))).toThrow('A head of');
  expect(() => createReader(10).push(createPrefix(0, 0))).toThrow('A head of 0');
  const head = Buffer.from('{}');
  expect(() => createReader(10).push(Buffer.concat([createPrefix(head.length, 0xffffffff), head]))).toThrow(
    'A body of',
  );
});

test.each(['[]', 'null', '"text"', '1', '{', '{}{}', '\u0000'])('a head that is no object is refused: %j', (text) => {
  const head = Buffer.from(text);
  expect(() => createReader(0).push(Buffer.concat([createPrefix(head.length, 0), head]))).toThrow();
});
