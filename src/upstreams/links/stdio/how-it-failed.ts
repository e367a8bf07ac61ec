import { AmbitError } from '../../../errors.ts';
import type { Exit } from '../../../sandbox/runner.ts';

export function howEnded({ code, signal, reason }: Exit): string {
  if (reason !== undefined) return `was ended: ${reason}`;
  return `ended ${signal === null ? `with code ${code}` : `by ${signal}`} before it answered`;
}

export function wasSilent(server: string, forMs: number): AmbitError {
  return new AmbitError('UPSTREAM_TIMEOUT', {
    what: `The server "${server}" was silent for ${forMs / 1000} seconds.`,
  });
}

export function wasUnreadable(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" answered with something that is no MCP message.`,
  });
}
