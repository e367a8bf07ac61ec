import type { Message } from '../message.ts';

/**
 * Replaces line breaks by blanks, since stdio carries one message a line. In valid JSON a raw line break is only white
 * space between tokens; the length and all positions stay the same.
 */
export function toSingleLine(bytes: Buffer): Buffer {
  if (!bytes.includes(0x0a) && !bytes.includes(0x0d)) return bytes;
  const copy = Buffer.from(bytes);
  for (let i = 0; i < copy.length; i++) if (copy[i] === 0x0a || copy[i] === 0x0d) copy[i] = 0x20;
  return copy;
}

/** Returns a message for stdio; the same one if it has no line breaks. */
export function toSingleLineMessage(message: Message): Message {
  const bytes = toSingleLine(message.bytes);
  return bytes === message.bytes ? message : { ...message, bytes };
}

const lineFeed = 0x0a;
const carriageReturn = 0x0d;
/** Composes the line that carries a message. The rest after a line break would be a message nobody checked. */
export function composeLine(message: Buffer): Buffer {
  const end = message.at(-1) === lineFeed ? message.length - 1 : message.length;
  const first = message.indexOf(lineFeed);
  if (first === end && !message.includes(carriageReturn)) return message;
  return Buffer.concat([toSingleLine(message.subarray(0, end)), Buffer.from([lineFeed])]);
}
