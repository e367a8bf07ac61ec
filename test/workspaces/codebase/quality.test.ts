import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../../structure/source-files.ts';
import { openCodebase } from './open-codebase.ts';

interface Question {
  readonly question: string;
  readonly answers: readonly { readonly path: string; readonly text: string }[];
}

/**
 * Questions about the source of zod, written by somebody who read that source and had not seen this search. Each answer is
 * a line that the right passage contains.
 */
const questions = JSON.parse(readFileSync(join(import.meta.dirname, 'questions.json'), 'utf8')) as Question[];

test('W1: for four of five questions the right passage is among the first five', async () => {
  const { ask } = openCodebase(join(repository, 'node_modules/zod/src'));
  const missed: string[] = [];
  for (const { question, answers } of questions) {
    const { matches } = await ask(question);
    const isRight = answers.some(({ path, text }) =>
      matches.some((each) => each.path === path && each.text.includes(text)),
    );
    if (!isRight) missed.push(question);
  }
  expect(questions).toHaveLength(30);
  expect(missed.length, missed.join('\n')).toBeLessThanOrEqual(6);
});
