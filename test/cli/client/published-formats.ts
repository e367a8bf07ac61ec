import { z } from 'zod';

const strings = z.array(z.string());
const map = z.record(z.string(), z.string());
const url = z.url({ protocol: /^https?$/ });

/**
 * The part of each client's format that Ambit writes, as its author publishes it (read in November 2026). Keys that are
 * not listed here are errors.
 */
export const publishedFormats: Readonly<Record<string, z.ZodType>> = {
  // https://code.claude.com/docs/en/mcp
  'claude-code': z.strictObject({
    mcpServers: z.record(
      z.string().regex(/^[\w-]+$/),
      z.discriminatedUnion('type', [
        z.strictObject({
          type: z.literal('stdio'),
          command: z.string(),
          args: strings.optional(),
          env: map.optional(),
        }),
        z.strictObject({ type: z.enum(['http', 'sse']), url, headers: map.optional() }),
      ]),
    ),
  }),
  // https://modelcontextprotocol.io/docs/develop/connect-local-servers
  'claude-desktop': z.strictObject({
    mcpServers: z.record(
      z.string(),
      z.strictObject({ command: z.string(), args: strings.optional(), env: map.optional() }),
    ),
  }),
  // https://cursor.com/docs/mcp
  cursor: z.strictObject({
    mcpServers: z.record(
      z.string(),
      z.union([
        z.strictObject({
          type: z.literal('stdio').optional(),
          command: z.string(),
          args: strings,
          env: map.optional(),
        }),
        z.strictObject({ url, headers: map.optional() }),
      ]),
    ),
  }),
  // src/vs/workbench/contrib/mcp/common/mcpConfiguration.ts in microsoft/vscode, and
  // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
  vscode: z.strictObject({
    servers: z.record(
      z.string(),
      z.union([
        z.strictObject({ type: z.literal('stdio').optional(), command: z.string(), args: strings.optional() }),
        z.strictObject({ type: z.enum(['http', 'sse']).optional(), url, headers: map.optional() }),
      ]),
    ),
    inputs: z
      .array(
        z.strictObject({
          id: z.string(),
          type: z.literal('promptString'),
          description: z.string(),
          password: z.boolean().optional(),
        }),
      )
      .optional(),
  }),
  // codex-rs/core/config.schema.json in openai/codex, and https://developers.openai.com/codex/mcp
  codex: z.strictObject({
    mcp_servers: z.record(
      z.string().regex(/^[\w-]+$/),
      z.union([
        z.strictObject({ command: z.string(), args: strings.optional(), env: map.optional() }),
        z.strictObject({ url, bearer_token_env_var: z.string().optional(), http_headers: map.optional() }),
      ]),
    ),
  }),
  // https://geminicli.com/docs/tools/mcp-server
  gemini: z.strictObject({
    mcpServers: z.record(
      // Names with underscores are read wrongly by the policy of Gemini CLI.
      z.string().regex(/^[^_]+$/),
      z.union([
        z.strictObject({ command: z.string(), args: strings.optional(), env: map.optional() }),
        z.strictObject({ httpUrl: url, headers: map.optional() }),
      ]),
    ),
  }),
  // https://opencode.ai/config.json and https://opencode.ai/docs/mcp-servers
  opencode: z.strictObject({
    mcp: z.record(
      z.string(),
      z.discriminatedUnion('type', [
        z.strictObject({ type: z.literal('local'), command: strings.min(1), enabled: z.boolean().optional() }),
        z.strictObject({
          type: z.literal('remote'),
          url,
          headers: map.optional(),
          oauth: z.literal(false).optional(),
          enabled: z.boolean().optional(),
        }),
      ]),
    ),
  }),
  // https://zed.dev/docs/ai/mcp
  zed: z.strictObject({
    context_servers: z.record(z.string(), z.strictObject({ command: z.string(), args: strings, env: map.optional() })),
  }),
};
