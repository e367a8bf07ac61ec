/** Runs `work` on an opened file or folder and closes it. */
export async function withOpen<Opened extends { close(): void | Promise<void> }, T>(
  opening: Opened | Promise<Opened>,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  const opened = await opening;
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}
