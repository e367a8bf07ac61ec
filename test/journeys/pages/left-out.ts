import { proof } from '../../proof.ts';
import type { PageBlock } from './read-page.ts';

/** A block that is not run as it stands. */
export interface LeftOutBlock {
  readonly page: string;
  /** Words of the block that no other block of the page has. */
  readonly words: string;
  readonly reason: string;
  /** `runs`: proof runs it. */
  readonly proof?: 'runs';
}

export const leftOut: readonly LeftOutBlock[] = [
  { page: 'README.md', words: 'you, or your agent platform', reason: 'a drawing' },
  {
    page: 'README.md',
    words: 'server-everything',
    reason: 'downloads a package; proof runs it',
    proof: 'runs',
  },
  {
    page: 'docs/how-to/run-in-a-sandbox.md',
    words: 'server-everything',
    reason: 'downloads a package; proof runs it',
    proof: 'runs',
  },
  {
    page: 'docs/how-to/trace-with-opentelemetry.md',
    words: 'docker run',
    reason: 'downloads Jaeger; test/journeys/observed has a collector',
  },
  {
    page: 'docs/how-to/secure-a-tool.md',
    words: 'https://notes.example/mcp',
    reason: 'two options, not a program; test/public/sdk has servers over HTTP',
  },
];

export function findLeftOut(page: string, block: PageBlock): LeftOutBlock | undefined {
  const found = leftOut.find((entry) => entry.page === page && block.text.includes(entry.words));
  return proof && found?.proof === 'runs' ? undefined : found;
}
