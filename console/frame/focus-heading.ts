let stopWaiting = (): void => {};

/** Moves the focus to the heading of the view, which some views show only with their data. */
export function focusHeading(): void {
  stopWaiting();
  const frame = requestAnimationFrame(() => {
    scrollTo({ top: 0 });
    const before = document.activeElement;
    const tryFocus = (): boolean => {
      const heading = document.querySelector<HTMLElement>('main h1');
      if (heading === null) return false;
      const { activeElement } = document;
      // The reader may have gone on meanwhile.
      const isFree = activeElement === before || activeElement === document.body;
      if (isFree) heading.focus({ preventScroll: true });
      return true;
    };
    if (tryFocus()) return;
    const observer = new MutationObserver(() => tryFocus() && observer.disconnect());
    observer.observe(document.body, { childList: true, subtree: true });
    stopWaiting = () => observer.disconnect();
  });
  stopWaiting = () => cancelAnimationFrame(frame);
}
