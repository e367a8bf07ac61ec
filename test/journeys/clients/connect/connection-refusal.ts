interface Refusal {
  readonly code: unknown;
  readonly data: unknown;
}

/** The JSON-RPC error that made a client give up; over HTTP some clients keep it as the text of the response. */
export async function readRefusal(connecting: Promise<unknown>): Promise<Refusal> {
  const error = await connecting.then(
    () => {
      throw new Error('the client got a connection');
    },
    (reason: { code?: unknown; data?: unknown; message: string }) => reason,
  );
  const body = /\{"jsonrpc".*\}/.exec(error.message)?.[0];
  if (body !== undefined) return (JSON.parse(body) as { error: Refusal }).error;
  return { code: error.code, data: error.data };
}

export const modernOnly = { code: -32022, data: { supported: ['2026-07-28'], requested: '2025-11-25' } };
