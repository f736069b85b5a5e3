# Makes the program's folder and its installer on Windows. Not yet run: see packaging\README.md.
# Needs Python 3.11 to 3.13, git, Visual Studio's C++ tools (in a developer prompt) and Inno Setup 6.
$ErrorActionPreference = "Stop"
$root = (Resolve-Path "$PSScriptRoot\..\..").Path
$out = "$root\build\package"
$python = "$out\env\Scripts\python.exe"
function Run { & $args[0] @($args[1..($args.Count - 1)]); if ($LASTEXITCODE) { throw "$($args[0]) failed" } }

Set-Location $root
Run py -3.11 -m venv --clear "$out\env"
Run $python -m pip install --quiet --no-deps --require-hashes -r requirements-package.lock -r requirements.lock
$facts = & $python packaging\facts.py | ConvertFrom-Json
$pin = "$out\llama.txt"
"llama-cpp-python==$($facts.llama_version) --hash=sha256:$($facts.sdist_sha256)" | Set-Content -Encoding ascii $pin
Run $python -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: --require-hashes --dest "$out\sources" -r $pin
Run tar -xf (Get-Item "$out\sources\*.tar.gz").FullName -C "$out\sources"
$sources = "$out\sources\llama_cpp_python-$($facts.llama_version)"

# The library, its CPU part in variants.
$env:Path = "$out\env\Scripts;$env:Path"
Run cmake -S "$sources\vendor\llama.cpp" -B "$out\library" -G Ninja @($facts.library_arguments)
Run cmake --build "$out\library" --target llama @($facts.targets)
New-Item -ItemType Directory -Force "$out\lib" | Out-Null
Copy-Item "$out\library\bin\*.dll" "$out\lib"

# The extension.
$nanobind = & $python -m nanobind --cmake_dir
Run cmake -S native -B "$out\extension" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DPython_EXECUTABLE=$python" "-Dnanobind_DIR=$nanobind" `
    "-DTWOFOLD_LLAMA_SOURCE=$sources\vendor\llama.cpp" "-DTWOFOLD_LLAMA_LIB=$out\lib" `
    "-DTWOFOLD_LLAMA_VERSION=$($facts.llama_version)" "-DTWOFOLD_LLAMA_COMMIT=$($facts.llama_commit)"
Run cmake --build "$out\extension"

Run $python packaging\staging.py --sources $sources --libraries "$out\lib" --extension (Get-Item "$out\extension\_native*.pyd").FullName
$env:QT_QPA_PLATFORM = "offscreen"
Run $python packaging\icons.py "$out\icons"
Run $python packaging\windows\version_file.py "$out\version.txt"
$env:PYTHONPATH = "$out\stage"; $env:PYTHONHASHSEED = "0"
$env:TWOFOLD_STAGE = "$out\stage"; $env:TWOFOLD_VERSION = $facts.version; $env:TWOFOLD_VERSION_FILE = "$out\version.txt"
Run $python -m PyInstaller --noconfirm --distpath "$out\dist" --workpath "$out\work" packaging\twofold.spec
Run "${env:ProgramFiles(x86)}\Inno Setup 6\ISCC.exe" "/DVersion=$($facts.version)" packaging\windows\twofold.iss
