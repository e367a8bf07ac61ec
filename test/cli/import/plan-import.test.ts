import { expect, test } from 'vitest';
import { findClientFiles } from '../../../src/cli/import/plan-import.ts';

const filesOn = (platform: NodeJS.Platform, env: Record<string, string>) =>
  findClientFiles(env, platform).map(({ client, file }) => `${client} ${file}`);

test('on Linux', () => {
  expect(filesOn('linux', { HOME: '/h', XDG_CONFIG_HOME: '/x' })).toEqual([
    'claude-code /h/.claude.json',
    'claude-desktop /x/Claude/claude_desktop_config.json',
    'cursor /h/.cursor/mcp.json',
    'vscode /x/Code/User/mcp.json',
    'vscode /x/Code/User/settings.json',
  ]);
  expect(filesOn('linux', { HOME: '/h', XDG_CONFIG_HOME: 'relative' })[1]).toContain('/h/.config/Claude/');
});

test('on macOS', () => {
  expect(filesOn('darwin', { HOME: '/h' })[1]).toBe(
    'claude-desktop /h/Library/Application Support/Claude/claude_desktop_config.json',
  );
});

test('Claude Code may keep its files elsewhere', () => {
  expect(filesOn('linux', { HOME: '/h', CLAUDE_CONFIG_DIR: '/c' })[0]).toBe('claude-code /c/.claude.json');
});
