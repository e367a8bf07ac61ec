/**
 * Which call an oversized answer belonged to, from the first and last bytes of its line: ids stand at either end in
 * every implementation we know. Undefined when it cannot be told.
 */
export function findOversizedId(head: Buffer, tail: Buffer): number | undefined {
  const front = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,/.exec(head.toString('latin1'));
  if (front !== null) return Number(front[1]);
  const back = /,\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(tail.toString('latin1'));
  return back === null ? undefined : Number(back[1]);
}

const serverInitiated =
  /^\s*\{\s*(?:"(?:jsonrpc|id)"\s*:\s*(?:"[^"\\]{0,256}"|\d{1,15})\s*,\s*){0,2}"(?:method|params)"\s*:/;

/** A notification or a request of its own answers nobody, however long it is. */
export function isServerInitiated(head: Buffer): boolean {
  return serverInitiated.test(head.toString('latin1'));
}
