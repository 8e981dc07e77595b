# Developer shortcut: build _core beside the sources.
dev:
	cmake -S . -B build/dev -G Ninja -DCMAKE_BUILD_TYPE=Release -DDATACURSOR_BUILD_TESTS=ON -DPython_EXECUTABLE=$(PYTHON) -Dpybind11_DIR=$$($(PYTHON) -m pybind11 --cmakedir)
	cmake --build build/dev
	cp build/dev/_core*.so src/datacursor/
