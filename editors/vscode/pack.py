#!/usr/bin/env python3
"""Packs the built extension into a .vsix, which is a zip file with two lists of its contents.

    pack.py OUTPUT
"""

import json
import pathlib
import sys
import zipfile
from xml.sax.saxutils import quoteattr

FILES = ["package.json", "README.md", "language-configuration.json", "dist/extension.js", "syntaxes/*.json"]
TYPES = {"js": "application/javascript", "json": "application/json", "md": "text/markdown", "vsixmanifest": "text/xml"}
# A constant time: the same sources make the same bytes.
TIME = (2020, 1, 1, 0, 0, 0)

folder = pathlib.Path(__file__).parent
package = json.loads((folder / "package.json").read_text())
identity = " ".join(
    f"{name}={quoteattr(value)}"
    for name, value in [("Id", package["name"]), ("Version", package["version"]), ("Publisher", package["publisher"])]
)
manifest = f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" {identity}/>
    <DisplayName>{package["displayName"]}</DisplayName>
    <Description xml:space="preserve">{package["description"]}</Description>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value={quoteattr(package["engines"]["vscode"])}/>
    </Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets>
    <Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/>
    <Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" Addressable="true"/>
  </Assets>
</PackageManifest>
"""
types = "".join(f'<Default Extension=".{end}" ContentType="{kind}"/>' for end, kind in TYPES.items())
content_types = (
    '<?xml version="1.0" encoding="utf-8"?>\n'
    f'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{types}</Types>\n'
)
output = pathlib.Path(sys.argv[1])
output.parent.mkdir(parents=True, exist_ok=True)
with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
    def add(name, data):
        archive.writestr(zipfile.ZipInfo(name, TIME), data, zipfile.ZIP_DEFLATED)

    add("extension.vsixmanifest", manifest)
    add("[Content_Types].xml", content_types)
    for pattern in FILES:
        for file in sorted(folder.glob(pattern)):
            add(f"extension/{file.relative_to(folder)}", file.read_bytes())
print(output)
