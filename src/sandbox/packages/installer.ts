import { join } from 'node:path';
import { createScrubber, listSecretValues } from '../../observability/log/scrub.ts';
import type { Runner, RunningProcess } from '../runner.ts';

interface InstallerOptions {
  readonly plain: Runner;
  readonly tmpRoot: string;
  readonly maxSeconds: number;
}

interface ToolRun {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Values that its output must not show, beside those whose names call them secret. */
  readonly secrets: readonly string[];
}

/** Runs the tools that install packages for direct sessions. They have the user's rights, and end with Ambit. */
interface Installer {
  /** Rejects with the output of the tool when it fails. */
  run(wanted: ToolRun): Promise<void>;
  /** Ends all runs, and refuses new ones. */
  close(): Promise<void>;
}

/** A folder in which no settings of a project lie. */
const neutralFolder = '/';
const maxOutputBytes = 16_384;
let runCount = 0;

export function createInstaller({ plain, tmpRoot, maxSeconds }: InstallerOptions): Installer {
  const running = new Set<RunningProcess>();
  let isClosed = false;

  async function run({ command, args, env, secrets }: ToolRun): Promise<void> {
    if (isClosed) throw new Error('Ambit is ending');
    const tmpDir = join(tmpRoot, `install-${process.pid}-${++runCount}`);
    const tool = await plain.start({ command, args, env: { ...env, TMPDIR: tmpDir }, cwd: neutralFolder, tmpDir });
    running.add(tool);
    if (isClosed) void tool.end();
    tool.stdin.end();
    let output = '';
    for (const stream of [tool.stdout, tool.stderr]) {
      stream.on('data', (bytes: Buffer) => {
        output = (output + bytes.toString('utf8')).slice(-maxOutputBytes);
      });
    }
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      void tool.end();
    }, maxSeconds * 1000);
    const { code, signal } = await tool.exited;
    clearTimeout(timer);
    running.delete(tool);
    if (code === 0) return;
    if (isLate) throw new InstallTimeoutError(`the installation took longer than ${maxSeconds} s`);
    // Scripts of packages see the environment of the tool, and their output is part of its own.
    const scrub = createScrubber([...secrets, ...listSecretValues(env)]);
    throw new Error(`${args[0]} ended with ${signal ?? code}: ${scrub(hideCredentials(output.trim()))}`);
  }

  return {
    run,
    async close() {
      isClosed = true;
      await Promise.all([...running].map((tool) => tool.end()));
    },
  };
}

/** An installation took too long. The message completes the sentence "could not be fetched: …". */
export class InstallTimeoutError extends Error {}

/** Removes user and password from URLs of registries and proxies. */
export function hideCredentials(text: string): string {
  return text.replace(/\/\/[^/\s]*@/g, '//');
}
