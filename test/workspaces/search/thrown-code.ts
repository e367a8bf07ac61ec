/** The code of what is thrown. */
export function codeOf(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
  return undefined;
}
