/** Closes parts in the reverse of the order in which they were opened. */
export interface ClosingStack {
  /** `close` runs after everything that is pushed later has closed. */
  push(close: () => unknown): void;
  /**
   * Closes everything, once, however often it is called. A part that fails to close does not keep the others open; its
   * error is thrown at the end.
   */
  close(): Promise<void>;
}

export function createClosingStack(): ClosingStack {
  const closings: (() => unknown)[] = [];
  let closed: Promise<void> | undefined;

  async function closeAll(): Promise<void> {
    const errors: unknown[] = [];
    // A part that closes may push another one, so the loop reads the end of the list each time.
    for (let close = closings.pop(); close !== undefined; close = closings.pop()) {
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 1) throw new AggregateError(errors, 'Several parts failed to close.');
    if (errors.length === 1) throw errors[0];
  }

  return {
    push: (close) => void closings.push(close),
    close() {
      closed ??= closeAll();
      return closed;
    },
  };
}

/** Opens parts on one stack. If one of them cannot be opened, those before it are closed again. */
export async function openOnStack<T>(open: (closing: ClosingStack) => Promise<T>): Promise<T> {
  const closing = createClosingStack();
  try {
    return await open(closing);
  } catch (error) {
    // The caller needs the error of the opening; errors of the closing are less important.
    await closing.close().catch(() => {});
    throw error;
  }
}
