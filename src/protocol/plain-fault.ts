/**
 * An error about what somebody sent. Where in the program it was found is of no use to anybody, and writing that down
 * takes ten times as long as finding it: whoever sends a flood of nonsense must not make us do so.
 */
export class PlainFault extends Error {
  constructor(what: string) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(what);
    Error.stackTraceLimit = stackTraceLimit;
  }
}
