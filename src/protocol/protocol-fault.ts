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
