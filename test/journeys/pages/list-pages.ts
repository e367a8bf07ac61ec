import { readSourceFiles } from '../../structure/source-files.ts';

/** The pages that a newcomer follows, in order. */
export function listPages(): string[] {
  const howTos = readSourceFiles('docs/how-to', /\.md$/).map(({ path }) => path);
  const starts = readSourceFiles('docs/getting-started', /\.md$/).map(({ path }) => path);
  return ['README.md', 'docs/tutorial/first-session.md', ...starts, ...howTos];
}
