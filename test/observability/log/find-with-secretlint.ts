import { lintSource } from '@secretlint/core';
import { creator } from '@secretlint/secretlint-rule-preset-recommend';

const rules = [{ id: creator.meta.id, rule: creator, options: {} }];

/** Finds credentials in a text by the rules of secretlint. */
export async function findWithSecretlint(text: string): Promise<string[]> {
  const source = { filePath: 'ambit.log', content: text, ext: '.log', contentType: 'text' } as const;
  const { messages } = await lintSource({ source, options: { config: { rules } } });
  return messages.map(({ message }) => message);
}
