/**
 * An error about what somebody sent. Where in the program it was found is of no use to anybody, and writing that down
 * takes ten times as long as finding it: whoever sends a flood of nonsense must not make us do so.
 */
export class StacklessError extends Error {
  constructor(what: string) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(what);
    Error.stackTraceLimit = stackTraceLimit;
  }
}
/** A JSON-RPC error that the protocol itself prescribes, on the status it prescribes. */
export class ProtocolFault extends Error {
  readonly rpc: number;
  readonly status: number;
  readonly data: unknown;

  constructor(rpc: number, status: number, message: string, data?: unknown) {
    super(message);
    this.name = 'ProtocolFault';
    this.rpc = rpc;
    this.status = status;
    this.data = data;
  }
}

/** The upstream does not speak the caller's era: where a bridge can stand, one is built instead. */
export class EraFault extends ProtocolFault {}
