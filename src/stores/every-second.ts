/** Does something every second, without keeping the process alive. What fails is tried again in the next. */
export function everySecond(work: () => Promise<unknown>): () => void {
  const timer = setInterval(() => {
    work().catch(() => {});
  }, 1000).unref();
  return () => clearInterval(timer);
}
