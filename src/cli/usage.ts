import { type Command, globalFlags } from './command.ts';

/** The help text, within 80 columns. */
export function usage(commands: readonly Command[]): string {
  const lines = ['Ambit, the session layer for MCP.', '', 'Usage:'];
  for (const command of commands) {
    const operands = command.operands === undefined ? '' : ` ${command.operands}`;
    lines.push(`  ambit ${command.path.join(' ')}${operands}`, `      ${command.help}`);
    for (const [name, flag] of Object.entries(command.flags)) lines.push(flagLine(name, flag));
  }
  lines.push('', 'Everywhere:');
  for (const [name, flag] of Object.entries(globalFlags)) lines.push(flagLine(name, flag));
  return `${lines.join('\n')}\n`;
}

function flagLine(name: string, flag: { readonly value?: string; readonly help: string }): string {
  const spelled = `--${name}${flag.value === undefined ? '' : ` ${flag.value}`}`;
  return `        ${spelled.padEnd(22)} ${flag.help}`;
}
