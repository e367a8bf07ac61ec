import type { AnswerOf } from '../api/request.ts';
import { Facts } from '../parts/card.tsx';
import { quoteShown } from '../parts/quote-word.ts';
import { Text } from '../parts/text.tsx';

type Definition = AnswerOf<'GET /api/v1/servers/{id}'>['definition'];

/** The command or URL of a server, without secrets. */
export function ServerDefinition({ details }: { readonly details: { readonly definition: Definition } }) {
  const { definition } = details;
  if (definition.kind === 'http') {
    return (
      <Facts
        rows={[
          ['URL', <Text value={definition.url} />],
          ['Headers', definition.headers.length === 0 ? 'none' : <Text value={definition.headers.join(', ')} />],
        ]}
      />
    );
  }
  const { command, args, env, program, problem, files, package: pack } = definition;
  return (
    <Facts
      rows={[
        [
          'Command',
          <code>
            <Text value={[command, ...args].map(quoteShown).join(' ')} max={600} />
          </code>,
        ],
        ['Program', program === null ? <Text value={problem ?? 'not found'} /> : <Text value={program} />],
        ...(pack === null ? [] : [['Package', <Text value={`${pack.name} ${pack.version}`} />] as const]),
        ['Variables', env.length === 0 ? 'none' : <Text value={env.join(', ')} />],
        ...(files.length === 0
          ? []
          : [
              [
                'Pinned files',
                <ul>
                  {files.map(({ path, sha256 }) => (
                    <li key={path}>
                      <Text value={path} />{' '}
                      <span class="muted">{sha256 === null ? 'missing' : sha256.slice(0, 12)}</span>
                    </li>
                  ))}
                </ul>,
              ] as const,
            ]),
      ]}
    />
  );
}
