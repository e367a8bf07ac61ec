import type { AnswerOf } from '../api/request.ts';
import { Facts } from '../parts/card.tsx';
import { quoteShown } from '../parts/quote-word.ts';
import { Text } from '../parts/text.tsx';

type Definition = AnswerOf<'GET /api/v1/servers/{id}'>['definition'];

interface ServerDefinitionProps {
  readonly details: { readonly definition: Definition };
  /** Shows the command and the URL without a cut, for a person who approves them. */
  readonly isWhole?: boolean;
}

const maxShown = 600;

/** The command or URL of a server. */
export function ServerDefinition({ details, isWhole = false }: ServerDefinitionProps) {
  const { definition } = details;
  const max = isWhole ? Number.POSITIVE_INFINITY : maxShown;
  if (definition.kind === 'http') {
    return (
      <Facts
        rows={[
          ['URL', <Text value={definition.url} max={max} />],
          ['Headers', definition.headers.length === 0 ? 'none' : <Text value={definition.headers.join(', ')} />],
        ]}
      />
    );
  }
  const { command, args, argCount, env, program, problem, files, fileCount, package: pack } = definition;
  const line = [command, ...(args ?? [])].map(quoteShown).join(' ');
  return (
    <Facts
      rows={[
        [
          'Command',
          <>
            <code class="server-command">
              <Text value={line} max={max} />
            </code>
            {isWhole && line.length > maxShown && (
              <span class="muted"> {line.length} characters, all of them shown: read them to the end.</span>
            )}
          </>,
        ],
        ...(args === null && argCount > 0 ? [['Arguments', <HiddenFromViewers count={argCount} />] as const] : []),
        ['Program', program === null ? <Text value={problem ?? 'not found'} /> : <Text value={program} />],
        ...(pack === null ? [] : [['Package', <Text value={`${pack.name} ${pack.version}`} />] as const]),
        ['Variables', env.length === 0 ? 'none' : <Text value={env.join(', ')} />],
        ...(fileCount === 0
          ? []
          : [
              [
                'Pinned files',
                files === null ? (
                  <HiddenFromViewers count={fileCount} />
                ) : (
                  <ul>
                    {files.map(({ path, sha256 }) => (
                      <li key={path}>
                        <Text value={path} />{' '}
                        <span class="muted">{sha256 === null ? 'missing' : sha256.slice(0, 12)}</span>
                      </li>
                    ))}
                  </ul>
                ),
              ] as const,
            ]),
      ]}
    />
  );
}

function HiddenFromViewers({ count }: { readonly count: number }) {
  return <span class="muted">{count}, which only admins can see</span>;
}
