/** The user behind a client: has folders, answers questions, plays the model. */
export interface SimulatedUser {
  roots: { readonly uri: string; readonly name: string }[];
  /** The methods this person was asked by, in order. */
  readonly asked: string[];
  think(params: { readonly messages: readonly unknown[] }): {
    role: 'assistant';
    model: string;
    content: { type: 'text'; text: string };
  };
  fill(params: unknown): { action: 'accept'; content: Record<string, string> };
  show(): { roots: { uri: string; name: string }[] };
}

const answers: Readonly<Record<string, string>> = { name: 'Ada', username: 'ada', email: 'ada@example.com' };

export function createSimulatedUser(roots: SimulatedUser['roots']): SimulatedUser {
  const asked: string[] = [];
  const person: SimulatedUser = {
    roots,
    asked,
    think({ messages }) {
      asked.push('sampling/createMessage');
      const said = JSON.stringify(messages).match(/"text":"([^"]*)"/)?.[1] ?? '';
      return { role: 'assistant', model: 'a-model', content: { type: 'text', text: `I heard <${said}>` } };
    },
    fill(params) {
      asked.push('elicitation/create');
      const { requestedSchema } = params as { requestedSchema: { properties: Record<string, unknown> } };
      const wanted = Object.keys(requestedSchema.properties).filter((key) => key in answers);
      return { action: 'accept', content: Object.fromEntries(wanted.map((key) => [key, answers[key] ?? ''])) };
    },
    show() {
      asked.push('roots/list');
      return { roots: person.roots.map((root) => ({ ...root })) };
    },
  };
  return person;
}
