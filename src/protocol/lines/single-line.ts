import type { Message } from '../message.ts';

/**
 * Stdio carries one message a line. In valid JSON a raw line break is only ever white space between tokens, so it
 * becomes a blank; the length, and so every place in the message, stays the same.
 */
export function oneLine(bytes: Buffer): Buffer {
  if (!bytes.includes(0x0a) && !bytes.includes(0x0d)) return bytes;
  const copy = Buffer.from(bytes);
  for (let i = 0; i < copy.length; i++) if (copy[i] === 0x0a || copy[i] === 0x0d) copy[i] = 0x20;
  return copy;
}

/** A message fit for stdio; as it is, when it already lies on one line. */
export function onOneLine(message: Message): Message {
  const bytes = oneLine(message.bytes);
  return bytes === message.bytes ? message : { ...message, bytes };
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
/**
 * Makes the line that carries one message over a pipe. Whatever the message holds, a reader sees one line: a line break in
 * it would make the rest a message of its own, which nobody has judged.
 */
export function lineOf(message: Buffer): Buffer {
  const end = message.at(-1) === lineFeed ? message.length - 1 : message.length;
  const first = message.indexOf(lineFeed);
  if (first === end && !message.includes(carriageReturn)) return message;
  return Buffer.concat([oneLine(message.subarray(0, end)), Buffer.from([lineFeed])]);
}
