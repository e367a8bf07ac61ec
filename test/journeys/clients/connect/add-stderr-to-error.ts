import type { Stream } from 'node:stream';

/** When a connection over stdio fails, the reason is usually on stderr. */
export async function addStderrToError(
  stdio: { stderr: Stream | null } | undefined,
  connecting: Promise<void>,
): Promise<void> {
  let said = '';
  stdio?.stderr?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
  });
  await connecting.catch((error: Error) => {
    if (said !== '') error.message += `\nstderr: ${said}`;
    throw error;
  });
}
