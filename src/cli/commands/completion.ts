import { type Command, type Flag, globalFlags, requirePositional } from '../command.ts';
import type { LoadedCommand } from '../commands.ts';

const shells = ['bash', 'zsh', 'fish'] as const;

export const completionCommand: Command = {
  operands: 'SHELL',
  operandChoices: shells,
  help: 'Print a completion script for bash, zsh or fish',
  flags: {},
  async run(invocation) {
    const shell = requirePositional(invocation, 'SHELL');
    const { commands, loadCommand, nounSummaries } = await import('../commands.ts');
    const loaded = await Promise.all(commands.map(loadCommand));
    const writeScript = shell === 'bash' ? writeBashScript : shell === 'zsh' ? writeZshScript : writeFishScript;
    process.stdout.write(writeScript(loaded, nounSummaries));
  },
};

type Summaries = Readonly<Record<string, string>>;

/** One place on the command line, with the words and flags that may follow there. */
interface Position {
  /** The words of the command line before this place, without flags. */
  readonly path: readonly string[];
  readonly isCommand: boolean;
  readonly words: readonly { readonly word: string; readonly help: string }[];
  readonly flags: Readonly<Record<string, Flag>>;
}

/** Lists every place: the start, each noun, and each command. */
function listPositions(loaded: readonly LoadedCommand[], summaries: Summaries): Position[] {
  const nouns = [...new Set(loaded.map(({ path: [noun = ''] }) => noun))];
  const start = nouns.map((noun) => {
    const command = loaded.find(({ path }) => path[0] === noun);
    return { word: noun, help: summaries[noun] ?? command?.help ?? '' };
  });
  const groups = nouns.filter((noun) => loaded.some(({ path }) => path[0] === noun && path.length > 1));
  return [
    {
      path: [],
      isCommand: false,
      words: [...start, { word: 'help', help: 'Show the help of a command' }],
      flags: globalFlags,
    },
    ...groups.map((noun) => ({
      path: [noun],
      isCommand: false,
      words: loaded
        .filter(({ path }) => path[0] === noun && path.length > 1)
        .map(({ path, help }) => ({ word: path[1] as string, help })),
      flags: globalFlags,
    })),
    ...loaded.map(({ path, operandChoices = [], flags }) => ({
      path,
      isCommand: true,
      words: operandChoices.map((word) => ({ word, help: '' })),
      flags: { ...flags, ...globalFlags },
    })),
  ];
}

/** Shells split and expand the words of a script, so that no other characters may stand in them. */
function requirePlainWord(word: string): string {
  if (!/^[a-z0-9][a-z0-9-]*$/i.test(word)) throw new Error(`"${word}" cannot stand in a completion script`);
  return word;
}

function quoteText(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Writes the flag as it is typed, also with its one letter. */
function spellFlag(name: string, { short }: Flag): string[] {
  const long = `--${requirePlainWord(name)}`;
  return short === undefined ? [long] : [long, `-${requirePlainWord(short)}`];
}

/** The pattern of a `case` for the words before the cursor. A command of one word may have operands behind it. */
function casePattern({ path, isCommand }: Position): string {
  const words = path.map(requirePlainWord);
  return isCommand && path.length === 1 ? `'${words[0]} '*` : `'${words[0] ?? ''} ${words[1] ?? ''}'`;
}

/** The condition under which the operand of a command of one word is still to come. */
function onlyFirst({ path, isCommand }: Position): string {
  return isCommand && path.length === 1 ? '[[ -n $verb ]] || ' : '';
}

/** Writes what bash and zsh have in common: finding the noun and the verb before the cursor. */
function writeScan(words: string, current: string, first: number): string {
  return `  local noun= verb= prev= word= skip= i
  for ((i = ${first + 1}; i < ${current}; i++)); do
    word=\${${words}[i]}
    if [[ -n $skip ]]; then skip=; continue; fi
    case $word in
      --) after=$i; break ;;
      --config|--data-dir) skip=1 ;;
      -*|=) ;;
      help) [[ -n $noun ]] && verb=\${verb:-$word} ;;
      *) if [[ -z $noun ]]; then noun=$word; else verb=\${verb:-$word}; fi ;;
    esac
  done`;
}

function writeBashScript(loaded: readonly LoadedCommand[], summaries: Summaries): string {
  const cases = listPositions(loaded, summaries).map((position) => {
    const { words, flags } = position;
    const entries = Object.entries(flags);
    const values = entries.flatMap(([name, { choices }]) =>
      choices === undefined ? [] : `--${name}) words='${choices.map(requirePlainWord).join(' ')}'; return ;;`,
    );
    const taking = entries.flatMap(([name, flag]) =>
      flag.type === 'string' && flag.choices === undefined ? spellFlag(name, flag) : [],
    );
    const lines = [...values, ...(taking.length === 0 ? [] : [`${taking.join('|')}) return ;;`])];
    return `    ${casePattern(position)})
      case $1 in
${lines.map((line) => `        ${line}`).join('\n')}
      esac
      ${onlyFirst(position)}words='${words.map(({ word }) => requirePlainWord(word)).join(' ')}'
      flags='${entries.flatMap(([name, flag]) => spellFlag(name, flag)).join(' ')}' ;;`;
  });
  return `# Completion of ambit for bash. Load it with: source <(ambit completion bash)
_ambit_words() {
  case "$noun $verb" in
${cases.join('\n')}
  esac
}

_ambit() {
  local cur=\${COMP_WORDS[COMP_CWORD]} words= flags= after=
${writeScan('COMP_WORDS', 'COMP_CWORD', 0)}
  COMPREPLY=()
  # Behind "--" stands another command: bash completes file names.
  if [[ -n $after ]]; then return; fi
  prev=\${COMP_WORDS[COMP_CWORD - 1]}
  # Bash splits "--trust=direct" into three words.
  if [[ $cur == = ]]; then cur=
  elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  _ambit_words "$prev"
  if [[ $cur == -* ]]; then words=$flags; fi
  # The words come from this script only, never from a file or another program.
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}

complete -o default -F _ambit ambit
`;
}

function writeZshScript(loaded: readonly LoadedCommand[], summaries: Summaries): string {
  // A colon separates a word from its description.
  const describe = (word: string, help: string) => quoteText(`${word}:${help}`);
  const cases = listPositions(loaded, summaries).map((position) => {
    const { words, flags } = position;
    const entries = Object.entries(flags);
    const values = entries.flatMap(([name, flag]) => {
      if (flag.type !== 'string') return [];
      const action =
        flag.choices !== undefined
          ? `compadd -- ${flag.choices.map(requirePlainWord).join(' ')}`
          : flag.value === 'FILE'
            ? '_files'
            : flag.value === 'DIR'
              ? '_files -/'
              : `_message ${quoteText(flag.help)}`;
      return `${spellFlag(name, flag).join('|')}) ${action}; return ;;`;
    });
    return `    ${casePattern(position)})
      case $prev in
${values.map((line) => `        ${line}`).join('\n')}
      esac
      ${onlyFirst(position)}candidates=(${words.map(({ word, help }) => (help === '' ? word : describe(word, help))).join(' ')})
      flags=(${entries.flatMap(([name, flag]) => spellFlag(name, flag).map((word) => describe(word, flag.help))).join(' ')}) ;;`;
  });
  return `#compdef ambit
# Completion of ambit for zsh. Load it with: source <(ambit completion zsh)
_ambit() {
  local after=
  local -a candidates flags
${writeScan('words', 'CURRENT', 1)}
  # Behind "--" stands another command.
  if [[ -n $after ]]; then
    words=("\${(@)words[after + 1, -1]}")
    ((CURRENT -= after))
    _normal
    return
  fi
  prev=\${words[CURRENT - 1]}
  # The value of "--trust=direct" is completed behind the "=".
  if [[ \${words[CURRENT]} == --*=* ]]; then prev=\${words[CURRENT]%%=*}; compset -P '*='; fi
  case "$noun $verb" in
${cases.join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then _describe -o flag flags
  elif (( \${#candidates} )); then _describe command candidates
  else _files
  fi
}

if [[ \${funcstack[1]} == _ambit ]]; then _ambit "$@"; else compdef _ambit ambit; fi
`;
}

function writeFishScript(loaded: readonly LoadedCommand[], summaries: Summaries): string {
  const lines = listPositions(loaded, summaries).flatMap(({ path, words, flags }) => {
    const place = path.map(requirePlainWord).join(' ');
    const own = path.length === 0 ? [] : Object.entries(flags).filter(([name]) => !(name in globalFlags));
    return [
      ...words.map(({ word, help }) => {
        const description = help === '' ? '' : ` -d ${quoteText(help)}`;
        return `complete -c ambit -n ${quoteText(`__ambit_at ${place}`.trim())} -a ${requirePlainWord(word)}${description}`;
      }),
      ...own.map(([name, flag]) => writeFishFlag(name, flag, `-n ${quoteText(`__ambit_below ${place}`)} `)),
    ];
  });
  return `# Completion of ambit for fish. Load it with: ambit completion fish | source
function __ambit_path
    set -l words (commandline -opc)
    set -l skip 0
    for word in $words[2..-1]
        if test $skip = 1
            set skip 0
        else if test "$word" = --
            echo -- --
            return
        else if contains -- $word --config --data-dir
            set skip 1
        else if not string match -q -- '-*' $word; and test "$word" != help
            echo -- $word
        end
    end
end

function __ambit_at
    set -l path (__ambit_path)
    test "$path" = "$argv"
end

function __ambit_below
    set -l path (__ambit_path)
    not contains -- -- $path; and test "$path[1..$(count $argv)]" = "$argv"
end

complete -c ambit -f
complete -c ambit -n 'contains -- -- (__ambit_path)' -F
complete -c ambit -n '__ambit_below import' -F
${Object.entries(globalFlags)
  .map(([name, flag]) => writeFishFlag(name, flag, ''))
  .join('\n')}
${lines.join('\n')}
`;
}

function writeFishFlag(name: string, flag: Flag, condition: string): string {
  const value =
    flag.type === 'boolean'
      ? ''
      : flag.choices !== undefined
        ? ` -x -a ${quoteText(flag.choices.map(requirePlainWord).join(' '))}`
        : flag.value === 'FILE' || flag.value === 'DIR'
          ? ' -r -F'
          : ' -x';
  const short = flag.short === undefined ? '' : ` -s ${requirePlainWord(flag.short)}`;
  return `complete -c ambit ${condition}-l ${requirePlainWord(name)}${short}${value} -d ${quoteText(flag.help)}`;
}
