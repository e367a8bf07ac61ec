import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../start-ambit.ts';

/**
 * A code block of a page and its part in it:
 *
 * - `run`: a block of `sh`. The shell runs it as it stands.
 * - `start`: a block of `sh` below a paragraph that says "one terminal". It runs until the page ends.
 * - `output`: a block without a language, or `json output`. It is what the block of `sh` before it prints.
 * - `file`: a block below a paragraph that ends with a file name in backticks and a colon. It is that file.
 * - `client`: a block of `json` with `mcpServers` that is no file. A client connects to each server in it.
 * - `call`: a block of `json` with the name and the arguments of a tool. It is called in the session opened last.
 * - `answer`: a block of `text` below a call.
 * - `other`: any other block. Each is listed in left-out.ts with the reason why it is not run.
 */
export interface PageBlock {
  readonly kind: 'run' | 'start' | 'output' | 'file' | 'client' | 'call' | 'answer' | 'other';
  readonly language: string;
  readonly text: string;
  /** The name of the file, as the page writes it. */
  readonly file?: string;
  readonly line: number;
}

export function readPage(path: string): PageBlock[] {
  const lines = readFileSync(join(repository, path), 'utf8').split('\n');
  const blocks: PageBlock[] = [];
  let paragraph: string[] = [];
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] as string;
    const info = /^```(.*)$/.exec(line)?.[1];
    if (info === undefined) {
      if (line.trim() === '') {
        if (lines[i + 1]?.startsWith('```') !== true) paragraph = [];
      } else paragraph.push(line);
      continue;
    }
    const end = lines.indexOf('```', i + 1);
    const text = `${lines.slice(i + 1, end).join('\n')}\n`;
    blocks.push({ ...classifyBlock(info, paragraph.join(' '), text, blocks.at(-1)), text, line: i + 1 });
    paragraph = [];
    i = end;
  }
  return blocks;
}

function classifyBlock(
  info: string,
  before: string,
  text: string,
  last: PageBlock | undefined,
): Pick<PageBlock, 'kind' | 'language' | 'file'> {
  const [language = ''] = info.split(' ');
  if (language === 'sh') return { kind: /\bone terminal\b/.test(before) ? 'start' : 'run', language };
  const follows = last?.kind === 'run' || last?.kind === 'start';
  if (follows && (info === '' || info === 'json output')) return { kind: 'output', language };
  const file = /`([^`]+)`:$/.exec(before)?.[1];
  if (file !== undefined) return { kind: 'file', language, file };
  if (language === 'json' && text.includes('"mcpServers"')) return { kind: 'client', language };
  if (language === 'json' && /^\s*\{\s*"name"/.test(text)) return { kind: 'call', language };
  if (language === 'text' && last?.kind === 'call') return { kind: 'answer', language };
  return { kind: 'other', language };
}
