import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

export const clients = ['claude-code', 'claude-desktop', 'cursor', 'vscode'] as const;
export type Client = (typeof clients)[number];

export interface Place {
  readonly client: Client;
  readonly file: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Where these clients keep the servers of a user, whether or not there is such a file. */
export function knownPlaces(env: Environment, platform: NodeJS.Platform = process.platform): Place[] {
  const folder = (name: string, otherwise: string): string => {
    const value = env[name];
    return value !== undefined && isAbsolute(value) ? value : otherwise;
  };
  const home = folder(platform === 'win32' ? 'USERPROFILE' : 'HOME', homedir());
  const apps =
    platform === 'darwin'
      ? join(home, 'Library', 'Application Support')
      : platform === 'win32'
        ? folder('APPDATA', join(home, 'AppData', 'Roaming'))
        : folder('XDG_CONFIG_HOME', join(home, '.config'));
  return [
    { client: 'claude-code', file: join(folder('CLAUDE_CONFIG_DIR', home), '.claude.json') },
    { client: 'claude-desktop', file: join(apps, 'Claude', 'claude_desktop_config.json') },
    { client: 'cursor', file: join(home, '.cursor', 'mcp.json') },
    { client: 'vscode', file: join(apps, 'Code', 'User', 'mcp.json') },
    { client: 'vscode', file: join(apps, 'Code', 'User', 'settings.json') },
  ];
}
