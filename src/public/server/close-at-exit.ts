const open = new Set<() => Promise<void>>();

/** A session that was opened for this process must not outlive it, whether its author thinks of closing or not. */
export function closeAtExit(close: () => Promise<void>): () => void {
  if (open.size === 0) process.once('beforeExit', closeAll);
  open.add(close);
  return () => {
    open.delete(close);
    if (open.size === 0) process.off('beforeExit', closeAll);
  };
}

function closeAll(): void {
  for (const close of [...open]) void close();
}
