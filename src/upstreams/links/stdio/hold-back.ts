import type { Channel } from '../../../protocol/channel.ts';

/** Takes nothing more from a process while the caller that is full has no room. */
export function createHoldBack(running: () => { pause(): void; resume(): void } | undefined): (full: Channel) => void {
  let blockedBy: Channel | undefined;
  function resume(): void {
    blockedBy = undefined;
    running()?.resume();
  }
  return function holdBack(full) {
    if (full === blockedBy) return;
    blockedBy = full;
    running()?.pause();
    full.onDrain(resume);
    full.onGone(resume);
  };
}
