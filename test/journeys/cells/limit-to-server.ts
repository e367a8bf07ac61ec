import type { McpClient } from '../clients/connect/mcp-client.ts';

/** One server of many, seen as if it were alone: names get the server's name in front, or lose it. */
export function limitToServer(client: McpClient, server: string): McpClient {
  const prefix = `${server}__`;
  const own = (names: readonly string[]) =>
    names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  return {
    ...client,
    async tools() {
      const mine = (await client.tools()).filter(({ name }) => name.startsWith(prefix));
      return mine.map((tool) => ({ ...tool, name: tool.name.slice(prefix.length) }));
    },
    call: (tool, args, options) => client.call(prefix + tool, args, options),
    prompts: async () => own(await client.prompts()),
    prompt: (name, args) => client.prompt(prefix + name, args),
    complete: (prompt, argument, value) => client.complete(prefix + prompt, argument, value),
  };
}
