import type { Message } from './message.ts';

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
