import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const script = join(import.meta.dirname, '..', 'fixtures', 'recorder', 'http.js');

/** The recorder as an HTTP server of its own. */
export async function startRecorder(): Promise<{ url: string; stop(): Promise<void> }> {
  const child = spawn(process.execPath, [script], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
  return {
    url: `${(JSON.parse(line) as { url: string }).url}/mcp`,
    async stop() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}
