/** Says why a text cannot be the arguments of a call; undefined if it can, or is empty. */
export function findJsonProblem(text: string): string | undefined {
  if (text.trim() === '') return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return describeError(text, error as Error);
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return undefined;
  return 'Arguments are a JSON object, such as {"path": "README.md"}.';
}

function describeError(text: string, { message }: Error): string {
  const [, at] = /position (\d+)/.exec(message) ?? [];
  if (at === undefined) return 'This is not valid JSON: it ends too early or contains an unexpected character.';
  const before = text.slice(0, Number(at)).split('\n');
  return `This is not valid JSON: see line ${before.length}, column ${(before.at(-1) ?? '').length + 1}.`;
}
