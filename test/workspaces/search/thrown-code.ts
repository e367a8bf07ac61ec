/** The code of what is thrown. */
export function thrownCode(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
  return undefined;
}
