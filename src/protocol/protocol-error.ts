/**
 * An error about received data, without a stack trace. Nobody needs the trace, and capturing it takes ten times as long
 * as finding the error: a flood of invalid messages must not cost that.
 */
export class StacklessError extends Error {
  constructor(what: string) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(what);
    Error.stackTraceLimit = stackTraceLimit;
  }
}
/** A JSON-RPC error that the protocol prescribes, with the HTTP status it prescribes. */
export class ProtocolError extends Error {
  readonly rpc: number;
  readonly status: number;
  readonly data: unknown;

  constructor(rpc: number, status: number, message: string, data?: unknown) {
    super(message);
    this.name = 'ProtocolError';
    this.rpc = rpc;
    this.status = status;
    this.data = data;
  }
}

/** The upstream does not speak the caller's era. A bridge is built instead, if possible. */
export class EraError extends ProtocolError {}
