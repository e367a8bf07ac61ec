import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SERVER = fileURLToPath(new URL('../../fixtures/conformance/http.js', import.meta.url));

/** Starts the conformance fixture server and resolves when it listens. */
export async function startConformanceServer(): Promise<{ url: string; stop(): Promise<void> }> {
  // The channel is never written to; the server ends when it closes, even if this process is killed.
  const child = spawn(process.execPath, [SERVER], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  const url = await Promise.race([
    announcedUrl(child),
    exited.then(([code]) => Promise.reject(new Error(`the conformance fixture ended before it listened (${code})`))),
  ]);
  return {
    url,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function announcedUrl(child: ChildProcess): Promise<string> {
  const [line] = await once(createInterface({ input: child.stdout! }), 'line');
  return (JSON.parse(line) as { url: string }).url;
}
