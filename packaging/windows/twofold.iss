; Inno Setup: the installer for Windows, for one person, without administrator rights. Not yet run.
; packaging\windows\build.ps1 calls it with the version of pyproject.toml.
#ifndef Version
  #error Version is given by packaging\windows\build.ps1
#endif

[Setup]
AppId={{6E1D0E3C-6C0A-4C5B-9B0D-2F6B8C1C7A54}
AppName=Twofold
AppVersion={#Version}
AppPublisher=The Twofold developers
DefaultDirName={localappdata}\Programs\Twofold
DefaultGroupName=Twofold
DisableProgramGroupPage=yes
PrivilegesRequired=lowest
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.19041
OutputDir=..\..\build\package\installers
OutputBaseFilename=twofold-{#Version}-windows-x64
SetupIconFile=..\..\build\package\icons\twofold.ico
UninstallDisplayIcon={app}\twofold.exe
LicenseFile=..\..\LICENSE
Compression=lzma2
SolidCompression=yes
ChangesAssociations=yes
CloseApplications=yes

[Languages]
Name: "en"; MessagesFile: "compiler:Default.isl"
Name: "ko"; MessagesFile: "compiler:Languages\Korean.isl"

[Files]
Source: "..\..\build\package\dist\twofold\*"; DestDir: "{app}"; Flags: ignoreversion recursesubdirs createallsubdirs

[InstallDelete]
; What an older version held and this one does not.
Type: filesandordirs; Name: "{app}\_internal"

[Icons]
Name: "{group}\Twofold"; Filename: "{app}\twofold.exe"

[Registry]
Root: HKCU; Subkey: "Software\Classes\.gguf"; ValueType: string; ValueData: "Twofold.gguf"; Flags: uninsdeletevalue
Root: HKCU; Subkey: "Software\Classes\Twofold.gguf"; ValueType: string; ValueData: "GGUF model"; Flags: uninsdeletekey
Root: HKCU; Subkey: "Software\Classes\Twofold.gguf\DefaultIcon"; ValueType: string; ValueData: "{app}\twofold.exe,0"
Root: HKCU; Subkey: "Software\Classes\Twofold.gguf\shell\open\command"; ValueType: string; ValueData: """{app}\twofold.exe"" ""%1"""

[Run]
Filename: "{app}\twofold.exe"; Description: "{cm:LaunchProgram,Twofold}"; Flags: nowait postinstall skipifsilent

[CustomMessages]
en.Kept=Twofold is removed. Chats, models and settings are kept in:%n%1%nDelete that folder to remove everything.
ko.Kept=Twofold를 제거했습니다. 대화와 모델, 설정은 다음 폴더에 남아 있습니다.%n%1%n모두 지우려면 이 폴더를 삭제하세요.

[Code]
procedure CurUninstallStepChanged(CurUninstallStep: TUninstallStep);
begin
  if (CurUninstallStep = usPostUninstall) and not UninstallSilent then
    MsgBox(FmtMessage(CustomMessage('Kept'), [ExpandConstant('{localappdata}\twofold')]), mbInformation, MB_OK);
end;
