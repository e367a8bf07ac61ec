/** Tells a process that a call is no longer wanted, and why: in our words, or in the caller's own, as JSON text. */
export function cancelled(requestId: number, reason: string | undefined, rawReason?: string): Buffer {
  const words = rawReason ?? (reason === undefined ? undefined : JSON.stringify(reason));
  const tail = words === undefined ? '' : `,"reason":${words}`;
  return Buffer.from(
    `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${requestId}${tail}}}\n`,
  );
}
