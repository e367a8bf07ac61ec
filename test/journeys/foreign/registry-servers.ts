/** A server from a registry, and one call whose answer is the same every time. */
export interface RegistryServer {
  readonly tool: 'npx' | 'uvx';
  /** The package with the version that was tried. */
  readonly spec: string;
  readonly author: string;
  /** Arguments after the package. `WORKSPACE` stands for the path of the workspace. */
  readonly args?: readonly string[];
  readonly call: { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> };
}

export const registryServers: readonly RegistryServer[] = [
  {
    tool: 'npx',
    spec: '@modelcontextprotocol/server-everything@2026.8.31',
    author: 'the MCP project',
    call: { name: 'echo', arguments: { message: 'Water the beans' } },
  },
  {
    tool: 'npx',
    spec: '@eslint/mcp@0.3.13',
    author: 'ESLint',
    call: { name: 'lint-files', arguments: { filePaths: ['WORKSPACE/beans.js'] } },
  },
  {
    tool: 'npx',
    spec: '@cyanheads/git-mcp-server@2.15.3',
    author: 'cyanheads',
    call: { name: 'git_status', arguments: { path: 'WORKSPACE' } },
  },
  {
    tool: 'npx',
    spec: 'mcp-server-code-runner@0.1.8',
    author: 'formulahendry',
    call: { name: 'run-code', arguments: { code: 'console.log(6 * 7)', languageId: 'javascript' } },
  },
  {
    tool: 'npx',
    spec: 'time-mcp@1.0.6',
    author: 'yokingma',
    call: { name: 'days_in_month', arguments: { date: '2026-02-01' } },
  },
  {
    tool: 'npx',
    spec: '@wrtnlabs/calculator-mcp@0.2.1',
    author: 'Wrtn Labs',
    call: { name: 'add', arguments: { a: 1, b: 2 } },
  },
  {
    tool: 'npx',
    spec: '@negokaz/excel-mcp-server@0.12.0',
    author: 'negokaz (a Go program)',
    call: { name: 'excel_describe_sheets', arguments: { fileAbsolutePath: 'WORKSPACE/beans.xlsx' } },
  },
  {
    tool: 'npx',
    spec: '@upstash/context7-mcp@4.1.1',
    author: 'Upstash',
    call: { name: 'resolve-library-id', arguments: {} },
  },
  {
    tool: 'npx',
    spec: 'exa-mcp-server@3.4.1',
    author: 'Exa',
    call: { name: 'web_search_exa', arguments: {} },
  },
  {
    tool: 'npx',
    spec: 'mcp-fetch-server@1.1.2',
    author: 'zcaceres',
    call: { name: 'fetch_html', arguments: {} },
  },
  {
    tool: 'npx',
    spec: '@playwright/mcp@0.0.83',
    author: 'Microsoft',
    call: { name: 'browser_navigate', arguments: {} },
  },
  {
    tool: 'npx',
    spec: 'kubernetes-mcp-server@0.0.67',
    author: 'Red Hat (a Go program)',
    args: ['--kubeconfig', 'WORKSPACE/kubeconfig'],
    call: { name: 'configuration_view', arguments: {} },
  },
  {
    tool: 'uvx',
    spec: 'mcp-server-time@2026.10.19',
    author: 'the MCP project',
    call: {
      name: 'convert_time',
      arguments: { source_timezone: 'Asia/Tokyo', time: '12:00', target_timezone: 'Asia/Kolkata' },
    },
  },
  {
    tool: 'uvx',
    spec: 'mcp-server-git@2026.10.19',
    author: 'the MCP project',
    call: { name: 'git_status', arguments: { repo_path: 'WORKSPACE' } },
  },
  {
    tool: 'uvx',
    spec: 'mcp-server-calculator@0.2.1',
    author: 'githejie',
    call: { name: 'calculate', arguments: { expression: '6*7' } },
  },
  {
    tool: 'uvx',
    spec: 'markitdown-mcp@0.0.1a7',
    author: 'Microsoft',
    call: { name: 'convert_to_markdown', arguments: { uri: 'data:text/plain,beans' } },
  },
];
