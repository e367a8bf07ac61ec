import { pauseProcesses } from '../processes/pause-processes.ts';
import type { Root } from '../processes/process-family.ts';
import { startTimeOf } from '../processes/process-table.ts';

/** A process in a sandbox, with all it starts, and the folders it may write. */
interface Writer extends Root {
  readonly folders: readonly string[];
  mayBeGone: boolean;
}

/** A sandbox that is about to be set up. */
export interface SetUp {
  /** Folders in which something is mounted. Nobody may move what lies in them meanwhile. */
  readonly mountedUpon: readonly string[];
  /** Folders that its own program may write. */
  readonly writable: readonly string[];
}

interface UnderWay extends SetUp {
  readonly paused: readonly Writer[];
  readonly done: Promise<void>;
}

/** Of all runners of this process: what they start may share folders. */
const writers = new Set<Writer>();
const underWay = new Set<UnderWay>();

/** From now on it stands still while a sandbox is set up over what it may write. Call what is returned when it may be gone. */
export function noteWriter(pid: number, folders: readonly string[]): () => void {
  const start = startTimeOf(pid);
  if (start === undefined) return () => {};
  const writer: Writer = { pid, start, folders, mayBeGone: false };
  forgetGone();
  writers.add(writer);
  return () => {
    writer.mayBeGone = true;
    forgetGone();
  };
}

function forgetGone(): void {
  for (const writer of writers) {
    if (writer.mayBeGone && startTimeOf(writer.pid) !== writer.start) writers.delete(writer);
  }
}

/**
 * Does something while no process in a sandbox of ours can write where a new sandbox has something mounted. Set-ups that
 * would get in each other's way wait for each other. Throws `NotPaused` when one of the processes cannot be stopped.
 */
export async function withWritersPaused<T>(setUp: SetUp, work: () => Promise<T>): Promise<T> {
  const paused = await takeTurn(setUp);
  let finish: () => void = () => {};
  const done = new Promise<void>((accept) => {
    finish = accept;
  });
  const own = { ...setUp, paused, done };
  underWay.add(own);
  try {
    const resume = paused.length === 0 ? () => {} : await pauseProcesses(paused);
    return await work().finally(resume);
  } finally {
    underWay.delete(own);
    finish();
  }
}

/** Resolves when no set-up is under way that a process would disturb which may write to these folders. */
export async function setUpsOver(writable: readonly string[]): Promise<void> {
  await takeTurn({ mountedUpon: [], writable });
}

/** Resolves with those that have to stand still, once nobody else is in the way. */
async function takeTurn(setUp: SetUp): Promise<Writer[]> {
  for (;;) {
    const found = [...writers].filter(({ folders }) => overlap(folders, setUp.mountedUpon));
    const other = [...underWay].find(
      (each) =>
        overlap(each.mountedUpon, setUp.writable) ||
        overlap(each.writable, setUp.mountedUpon) ||
        found.some((writer) => each.paused.includes(writer)),
    );
    if (other === undefined) return found;
    await other.done;
  }
}

function overlap(some: readonly string[], others: readonly string[]): boolean {
  return some.some((one) => others.some((other) => holds(one, other) || holds(other, one)));
}

const holds = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder === '/' ? folder : `${folder}/`);
